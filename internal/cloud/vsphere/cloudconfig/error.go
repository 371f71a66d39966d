package cloudconfig

import (
	"cmp"
	"context"
	"fmt"
)

// Reason classifies a problem of the configuration or of a vCenter, for conditions.
type Reason string

// Reasons of the configuration. Package internal/cloud/vsphere has the reasons of vCenters.
const (
	// InvalidConfiguration means that the cloud configuration is invalid.
	InvalidConfiguration Reason = "InvalidConfiguration"
	// InvalidCredentials means that the Secret lacks a required value, or that a value is invalid.
	InvalidCredentials Reason = "InvalidCredentials"
)

// Error is an error of the configuration or of a vCenter. It quotes no text of a vCenter, and nothing of a Secret.
type Error struct {
	// Server is the vCenter. It is empty if the error concerns all vCenters.
	Server string
	// What is the operation, for example "log in".
	What   string
	Reason Reason
	// Why says what is wrong in detail, and what to do.
	Why string

	// Ended is context.Canceled or context.DeadlineExceeded, if a context has ended. Error drops the rest of the cause, which can contain secrets.
	Ended error
	// Expired means that the session has ended, so a new login may help.
	Expired bool
	// Status is the HTTP status of the response that caused the error. It is 0 if the error has another cause.
	Status int
}

// Error says what failed, where, and why.
func (e *Error) Error() string {
	return fmt.Sprintf("vCenter %s: %s: %s", cmp.Or(e.Server, "configuration"), e.What, e.Why)
}

// Is reports whether target is the context error that ended the call: context.Canceled or context.DeadlineExceeded.
func (e *Error) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && target == e.Ended
}
