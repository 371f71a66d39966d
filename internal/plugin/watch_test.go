package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// watched has what the command reads, one state after the other. "away" is an API server that does not answer.
type watched struct {
	states []string
	output string
	// exit is the exit code of the last state. Without lasts, the user interrupts at that state.
	exit  int
	lasts bool
}

// run returns the outputs of a watch, and its exit code.
func (w watched) run(t *testing.T) (string, string, int) {
	t.Helper()
	out, problems := &bytes.Buffer{}, &bytes.Buffer{}
	p := New(genericiooptions.IOStreams{Out: out, ErrOut: problems})
	p.Poll, p.Output, p.Now = time.Millisecond, w.output, func() time.Time { return time.Date(2026, 5, 4, 12, 0, 7, 0, time.UTC) }
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	err := p.Watch(ctx, func(_ context.Context, p *Plugin) (View, error) {
		if len(w.states) == 0 {
			interrupt()
			_, _ = fmt.Fprintln(p.Streams.Out, "half a state")
			return View{Exit: &ExitError{Code: Wrong}}, nil
		}
		state := w.states[0]
		w.states = w.states[1:]
		if state == "away" {
			return View{}, &url.Error{Op: "Get", URL: "https://api", Err: errors.New("connection refused")}
		}
		_, _ = fmt.Fprintln(p.Streams.Out, state)
		_, _ = fmt.Fprintln(p.Streams.ErrOut, "You lack permission.")
		view := View{Last: w.lasts && len(w.states) == 0}
		if w.exit != 0 {
			view.Exit = &ExitError{Code: w.exit}
		}
		return view, nil
	})
	return out.String(), problems.String(), Code(err)
}

func TestAWatchPrintsEachChangeOnce(t *testing.T) {
	const lack, away = "You lack permission.\n", "the API server does not answer, trying again: Get \"https://api\": connection refused\n"
	for name, tc := range map[string]struct {
		watched

		out, problems string
		code          int
	}{
		"until the last state":    {watched{states: []string{"a", "a", "b"}, output: Table, lasts: true}, "a\n\n12:00:07\nb\n", lack, 0},
		"JSON":                    {watched{states: []string{"a", "b", "a"}, output: JSON, lasts: true}, "a\nb\na\n", lack, 0},
		"YAML":                    {watched{states: []string{"a", "b"}, output: YAML, lasts: true}, "a\n---\nb\n", lack, 0},
		"the last one fails":      {watched{states: []string{"a"}, output: Wide, lasts: true, exit: Wrong}, "a\n", lack, Wrong},
		"Ctrl-C":                  {watched{states: []string{"a", "a"}, output: Table, exit: Unfinished}, "a\n", lack, Unfinished},
		"Ctrl-C when all is well": {watched{states: []string{"a"}, output: Table}, "a\n", lack, 0},
		"away for a while":        {watched{states: []string{"a", "away", "away", "a", "b"}, output: JSON, lasts: true}, "a\nb\n", lack + away, 0},
		"away all the time":       {watched{states: []string{"away"}, output: Table}, "", away, Unfinished},
	} {
		out, problems, code := tc.run(t)
		if out != tc.out || problems != tc.problems || code != tc.code {
			t.Errorf("%s: it prints %q and %q, and ends with %d", name, out, problems, code)
		}
	}
}

func TestAWatchEndsWithAnErrorOfTheCommand(t *testing.T) {
	p, broken := New(genericiooptions.IOStreams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}), errors.New("broken")
	if err := p.Watch(t.Context(), func(context.Context, *Plugin) (View, error) { return View{}, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}
