package plugin

import (
	"errors"
	"fmt"
)

// Exit codes. They are part of the interface: scripts read them.
const (
	// Failed means that the cluster or the cloud could not be asked.
	Failed = 1
	// WrongUsage means that nothing was done.
	WrongUsage = 2
	// Wrong means that something is wrong, and was named.
	Wrong = 3
	// Unfinished means that something will be done, but is not yet.
	Unfinished = 4
)

// ExitError ends the program with a code other than Failed. Err may be nil if all has been printed.
type ExitError struct {
	Code int
	Err  error
}

// Error is empty if all has been printed.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns what has happened.
func (e *ExitError) Unwrap() error { return e.Err }

// Usage is an error in the arguments.
func Usage(format string, values ...any) error {
	return &ExitError{Code: WrongUsage, Err: fmt.Errorf(format, values...)}
}

// Code is the exit code for what a command has returned.
func Code(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	default:
		return Failed
	}
}
