package operator

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
)

func TestACommandLineIsReadStrictly(t *testing.T) {
	const usage = "Usage: a\n"
	for _, tc := range []struct {
		args, commands, problem string
		prints                  bool
	}{
		{args: "start", commands: "start"},
		{args: "stop -number 1", commands: "start stop"},
		{args: "", commands: "start", problem: "the first argument must be start", prints: true},
		{args: "-number 1", commands: "start stop", problem: "the first argument must be start or stop", prints: true},
		{args: "end", commands: "start stop look", problem: "the first argument must be start, stop or look", prints: true},
		{args: "start now", commands: "start", problem: `unexpected argument "now"`},
		{args: "start -other", commands: "start", problem: "flag provided but not defined: -other", prints: true},
		{args: "help", commands: "start", problem: flag.ErrHelp.Error(), prints: true},
		{args: "-h", commands: "start", problem: flag.ErrHelp.Error(), prints: true},
		{args: "start -h", commands: "start", problem: flag.ErrHelp.Error(), prints: true},
		{args: "help start", commands: "start", problem: "the first argument must be start", prints: true},
	} {
		out := &bytes.Buffer{}
		flags := flag.NewFlagSet("a", flag.ContinueOnError)
		flags.SetOutput(out)
		flags.Int("number", 0, "a number")
		problem := ""
		err := Parse(flags, usage, strings.Fields(tc.args), strings.Fields(tc.commands)...)
		if err != nil {
			problem = err.Error()
		}
		if prints := strings.Contains(out.String(), usage+"  -number"); problem != tc.problem || prints != tc.prints {
			t.Errorf("%q: error %q, want %q; printed %q", tc.args, problem, tc.problem, out)
		}
		if help := strings.Contains(tc.problem, "help"); errors.Is(err, flag.ErrHelp) != help {
			t.Errorf("%q: error %v, help %t", tc.args, err, help)
		}
	}
}

func TestOnlyAnEndThatWasAskedForIsNoFailure(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	other := errors.New("other")
	for _, tc := range []struct {
		ctx       context.Context
		err, want error
	}{
		{t.Context(), nil, nil},
		{t.Context(), context.Canceled, context.Canceled},
		{ended, nil, nil},
		{ended, fmt.Errorf("look: %w", context.Canceled), nil},
		{ended, other, other},
	} {
		if err := IgnoreCanceled(tc.ctx, tc.err); !errors.Is(err, tc.want) {
			t.Errorf("%v with a context that is %v: %v, want %v", tc.err, tc.ctx.Err(), err, tc.want)
		}
	}
}
