package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// View is one reading of a state by a command with --watch.
type View struct {
	// Last means that the state does not change any more, so that the command ends.
	Last bool
	// Exit has the exit code of this state. It is nil for exit code 0.
	Exit error
}

// Watch calls function read every few seconds. It prints the output of this function only if the output has changed. Watch ends after the last View,
// or when the user interrupts. In both cases, it returns the Exit of the last View.
//
// Watch does not open watches of the API server. A state depends on about ten kinds of objects, and many users have permission to list these objects,
// but not to watch them.
func (p *Plugin) Watch(ctx context.Context, read func(context.Context, *Plugin) (View, error)) error {
	var shown, said *string
	var exit error
	first := true
	err := p.Until(ctx, 0, "the cluster's state is read", func(ctx context.Context) (bool, error) {
		out, problems, quiet := &heldBack{below: p.Streams.Out}, &heldBack{below: p.Streams.ErrOut}, *p
		quiet.Streams.Out, quiet.Streams.ErrOut = out, problems
		view, err := read(ctx, &quiet)
		if ctx.Err() != nil {
			// The user interrupted the read, so the view may be incomplete. An incomplete view would look like a change.
			return false, nil
		}
		if err != nil {
			return false, err
		}
		exit = view.Exit
		if isNew(&shown, out.String()) {
			if _, err := io.WriteString(p.Streams.Out, p.separator(first)+*shown); err != nil {
				return false, fmt.Errorf("print the state: %w", err)
			}
			first = false
		}
		if isNew(&said, problems.String()) {
			_, _ = io.WriteString(p.Streams.ErrOut, *said)
		}
		return view.Last, nil
	})
	var interrupted *ExitError
	if err == nil || !first && ctx.Err() != nil && errors.As(err, &interrupted) {
		return exit
	}
	return err
}

// isNew reports whether a text differs from the last one, and stores it.
func isNew(last **string, text string) bool {
	if *last != nil && **last == text {
		return false
	}
	*last = &text
	return true
}

// separator returns the text before each state. In a table, this text has the time of the change. JSON documents need no separator.
func (p *Plugin) separator(first bool) string {
	switch {
	case first || p.Output == JSON:
		return ""
	case p.Output == YAML:
		return "---\n"
	default:
		return "\n" + p.Now().Format("15:04:05") + "\n"
	}
}

// heldBack holds back the output of a command until Watch has compared it with the previous output. heldBack is a terminal if the stream below is a
// terminal, so that the command uses colours in the same cases.
type heldBack struct {
	bytes.Buffer

	below io.Writer
}

// Fd returns the descriptor of the wrapped stream, h.below. If that stream has no descriptor, the result is an invalid descriptor.
func (h *heldBack) Fd() uintptr {
	if file, ok := h.below.(interface{ Fd() uintptr }); ok {
		return file.Fd()
	}
	return ^uintptr(0)
}
