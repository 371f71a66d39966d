// Command tiny prints its version. It stands for the plugin, which takes minutes to build.
package main

import "fmt"

// release is what the linker sets.
var release string

func main() { fmt.Println(release) }
