package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

// Confirm asks once before something is changed. Without a yes it is an error, and nothing may be done. Yes is the flag --yes.
func (p *Plugin) Confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	_, _ = fmt.Fprintf(p.Streams.ErrOut, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() {
		// A line that can't be read is no yes.
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
			return &ExitError{Code: Unfinished, Err: errors.New("nothing was done: the question was not answered; --yes answers it")}
		default:
			return &ExitError{Code: Unfinished, Err: errors.New("nothing was done: the answer was not yes")}
		}
	}
}
