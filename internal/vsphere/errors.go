package vsphere

import (
	"cmp"
	"errors"
	"fmt"
)

// Reason says in one word why a vCenter does not answer. It goes into conditions.
type Reason string

// The reasons.
const (
	// InvalidConfiguration: the cloud configuration can't be used.
	InvalidConfiguration Reason = "InvalidConfiguration"
	// InvalidCredentials: the Secret lacks what it must have.
	InvalidCredentials Reason = "InvalidCredentials"
	// LoginRefused: the vCenter knows no such user and password.
	LoginRefused Reason = "LoginRefused"
	// NotAuthorized: the user may not do this.
	NotAuthorized Reason = "NotAuthorized"
	// NoConnection: no connection, or it broke.
	NoConnection Reason = "NoConnection"
	// Timeout: no answer in time.
	Timeout Reason = "Timeout"
	// UntrustedCertificate: the certificate is not signed by a CA that the cluster trusts, or is for another name.
	UntrustedCertificate Reason = "UntrustedCertificate"
	// InvalidAnswer: it answered what no vCenter answers.
	InvalidAnswer Reason = "InvalidAnswer"
	// Overloaded: the budget of requests is used up, or the vCenter asks to come later.
	Overloaded Reason = "Overloaded"
)

// Error is why something of a vCenter failed. It quotes no text of the vCenter, and no Secret.
type Error struct {
	// Server is the vCenter; empty if it is about all.
	Server string
	// What was tried, for instance "log in".
	What   string
	Reason Reason
	// Why says more, and what to do.
	Why string
	err error
}

// Error is a sentence: what failed, where, why.
func (e *Error) Error() string {
	return fmt.Sprintf("vCenter %s: %s: %s", cmp.Or(e.Server, "configuration"), e.What, e.Why)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.err }

// ReasonOf is the reason of an error; InvalidAnswer if it has none.
func ReasonOf(err error) Reason {
	var own *Error
	if errors.As(err, &own) {
		return own.Reason
	}
	return InvalidAnswer
}
