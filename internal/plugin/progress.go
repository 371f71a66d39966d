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
	// redraw is how often the bar is drawn at most.
	redraw = 100 * time.Millisecond
)

// Progress shows how far long work is: a bar on a terminal, and a line for each step elsewhere, such as in the log of CI.
type Progress struct {
	out      io.Writer
	terminal bool
	now      func() time.Time
	drawn    time.Time
	last     Step
	// open is true if the cursor is behind a bar.
	open bool
}

// Step is one step of long work: Done of Total are done.
type Step struct {
	Done, Total int
	// What is the latest object, and State what has become of it.
	What, State string
	// Problem stays above the bar.
	Problem bool
}

// Progress writes beside the result, where problems go.
func (p *Plugin) Progress() *Progress {
	out := p.Streams.ErrOut
	if below, ok := out.(*screen); ok {
		// A bar does steer the terminal.
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

// End leaves the bar behind, and below it what unfinished work waits for: the bar has no room for that.
func (p *Progress) End() {
	if p.open {
		_, _ = fmt.Fprintln(p.out)
	}
	if last := p.last; p.open && last.Done < last.Total && last.State != "" && !last.Problem {
		_, _ = fmt.Fprintf(p.out, "%s: %s\n", Printable(last.What), Printable(last.State))
	}
	p.open = false
}

// Until asks again and again until the answer is yes; most is 0 for no limit. It ends with Unfinished when the time is over, and at once if
// somebody interrupts it. An API server that is away for a while is waited for as well: updates of a cluster take it away.
func (p *Plugin) Until(ctx context.Context, most time.Duration, what string, ask func(context.Context) (bool, error)) error {
	// Not a deadline: a client would foresee it and fail early, with an error of its own.
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
			return &ExitError{Code: Unfinished, Err: fmt.Errorf("waited %s, and still not: %s; run the command again", most, what)}
		case isUnreachable(err):
			if text := err.Error(); text != away {
				_, _ = fmt.Fprintf(p.Streams.ErrOut, "the API server can't be asked, trying again: %s\n", text)
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

// isUnreachable reports whether nothing answered, or something that serves no API right now, such as a load balancer.
func isUnreachable(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport) || apierrors.IsServiceUnavailable(err)
}
