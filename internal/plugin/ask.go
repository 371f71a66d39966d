package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

// Confirm asks the user once before a change. Parameter yes, the value of flag --yes, skips the question. If the user does not answer yes,
// Confirm returns an error.
func (p *Plugin) Confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	_, _ = fmt.Fprintf(p.Streams.ErrOut, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() {
		// An unreadable line counts as no.
		line, _ := bufio.NewReader(p.Streams.In).ReadString('\n')
		answers <- line
	}()
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(p.Streams.ErrOut)
		return fmt.Errorf("nothing was done: %w", ctx.Err())
	case answer := <-answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		case "":
			return &ExitError{Code: Unfinished, Err: errors.New("nothing was done: no answer was given; --yes skips the question")}
		default:
			return &ExitError{Code: Unfinished, Err: errors.New("nothing was done: the answer was not yes")}
		}
	}
}
