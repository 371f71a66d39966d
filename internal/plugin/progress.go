package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	barWidth = 30
	// redraw is the shortest time between two drawings of the bar.
	redraw = 100 * time.Millisecond
)

// Progress shows the progress of long work. On a terminal, it draws a bar. In a log, as in CI, it prints a line for each step.
type Progress struct {
	out      io.Writer
	terminal bool
	now      func() time.Time
	drawn    time.Time
	last     Step
	// open means that the cursor is on the line of the bar.
	open bool
}

// Step is one step of long work. Done counts the finished parts, and Total counts all parts.
type Step struct {
	Done, Total int
	// What is the latest object, and State is the state of this object.
	What, State string
	// Problem means that the text of this step stays on a line of its own above the bar.
	Problem bool
}

// Progress writes to stderr.
func (p *Plugin) Progress() *Progress {
	out := p.Streams.ErrOut
	if below, ok := out.(*screen); ok {
		// The bar needs control characters, so bypass the screen, which escapes them.
		out = below.Writer
	}
	return &Progress{out: out, terminal: p.ShowsProgress(), now: p.Now}
}

// Step shows a step, once.
func (p *Progress) Step(step Step) {
	if step == p.last {
		return
	}
	p.last = step
	step.What, step.State = Printable(step.What), Printable(step.State)
	line := step.What
	if step.State != "" {
		line += ": " + step.State
	}
	switch {
	case !p.terminal:
		_, _ = fmt.Fprintf(p.out, "%d/%d %s\n", step.Done, step.Total, line)
		return
	case step.Problem:
		_, _ = fmt.Fprintf(p.out, "\r\033[K%s\n", line)
	case p.now().Sub(p.drawn) < redraw && step.Done < step.Total:
		return
	}
	p.drawn, p.open = p.now(), true
	filled := 0
	if step.Total > 0 {
		filled = barWidth * step.Done / step.Total
	}
	_, _ = fmt.Fprintf(p.out, "\r\033[K[%s%s] %d/%d %s", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled),
		step.Done, step.Total, step.What)
}

// End ends the line of the bar. If the work is unfinished, End prints on the next line what the work waits for.
func (p *Progress) End() {
	if p.open {
		_, _ = fmt.Fprintln(p.out)
	}
	if last := p.last; p.open && last.Done < last.Total && last.State != "" && !last.Problem {
		_, _ = fmt.Fprintf(p.out, "%s: %s\n", Printable(last.What), Printable(last.State))
	}
	p.open = false
}

// Until calls function ask until ask returns true. Until returns an error with exit code Unfinished when the user interrupts, or after the time
// limit. If argument "most" is 0, there is no time limit. Until keeps waiting while the API server does not answer, for instance during an update of
// the cluster.
func (p *Plugin) Until(ctx context.Context, most time.Duration, what string, ask func(context.Context) (bool, error)) error {
	// This context has no deadline. With a deadline, the client would fail earlier, with an error of its own.
	inTime, cancel := context.WithCancel(ctx)
	defer cancel()
	if most > 0 {
		limit := time.AfterFunc(most, cancel)
		defer limit.Stop()
	}
	ticker := time.NewTicker(p.Poll)
	defer ticker.Stop()
	away := ""
	for {
		done, err := ask(inTime)
		var answer *ExitError
		switch {
		case done, errors.As(err, &answer):
			return err
		case ctx.Err() != nil:
			return &ExitError{Code: Unfinished, Err: fmt.Errorf("interrupted while waiting until %s: run the command again", what)}
		case inTime.Err() != nil:
			return &ExitError{Code: Unfinished, Err: fmt.Errorf("timed out after %s while waiting until %s: run the command again", most, what)}
		case isUnreachable(err):
			if text := err.Error(); text != away {
				_, _ = fmt.Fprintf(p.Streams.ErrOut, "the API server does not answer, trying again: %s\n", text)
				away = text
			}
		case err != nil:
			return err
		}
		select {
		case <-inTime.Done():
		case <-ticker.C:
		}
	}
}

// isUnreachable reports whether the API server did not answer. Either the request got no answer, or the answer is "service unavailable", for instance
// from a load balancer.
func isUnreachable(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport) || apierrors.IsServiceUnavailable(err)
}
