package plugin

import (
	"errors"
	"fmt"
)

// Exit codes. Scripts read these numbers, so the codes are part of the interface.
const (
	// Failed means that the API server or the cloud did not answer, or that the result depends on a missing permission.
	Failed = 1
	// WrongUsage means that the arguments are invalid. The command did nothing.
	WrongUsage = 2
	// Wrong means that the command found a problem and printed it.
	Wrong = 3
	// Unfinished means that the work is not done yet.
	Unfinished = 4
)

// ExitError sets the exit code. Err is nil if the command has already printed everything.
type ExitError struct {
	Code int
	Err  error
}

// Error returns the text of Err. If Err is nil, it returns an empty text.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Usage returns an error about wrong arguments, with exit code WrongUsage.
func Usage(format string, values ...any) error {
	return &ExitError{Code: WrongUsage, Err: fmt.Errorf(format, values...)}
}

// Code returns the exit code for the error of a command.
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
