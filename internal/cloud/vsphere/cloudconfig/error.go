package cloudconfig

import (
	"cmp"
	"context"
	"fmt"
)

// Reason says in one word what is wrong with the configuration, or why a vCenter does not answer. It goes into conditions.
type Reason string

// The reasons of this package. internal/cloud/vsphere has those of a vCenter.
const (
	// InvalidConfiguration: the cloud configuration can't be used.
	InvalidConfiguration Reason = "InvalidConfiguration"
	// InvalidCredentials: the Secret lacks what it must have.
	InvalidCredentials Reason = "InvalidCredentials"
)

// Error is why something of the configuration, or of a vCenter, failed. It quotes no text of a vCenter, and no Secret.
type Error struct {
	// Server is the vCenter; empty if it is about all.
	Server string
	// What was tried, for instance "log in".
	What   string
	Reason Reason
	// Why says more, and what to do.
	Why string

	// Ended is context.Canceled or context.DeadlineExceeded, if a context has ended. Nothing else of the cause is kept: it may have secrets.
	Ended error
	// Expired means that the session has ended: logging in again may help.
	Expired bool
	// Status is that of HTTP, if it says what is wrong; or 0.
	Status int
}

// Error is a sentence: what failed, where, why.
func (e *Error) Error() string {
	return fmt.Sprintf("vCenter %s: %s: %s", cmp.Or(e.Server, "configuration"), e.What, e.Why)
}

// Is compares with the ends of contexts.
func (e *Error) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && target == e.Ended
}
