// Package faults has faults that the rules must find. Nobody reads it.
package faults

// message is what a person reads: one two three four five six seven eight nine
// ten one two three four five six seven eight nine ten.
//
//	nobody reads code
const message = "somebody took over the driver"

var key = "nobody"
