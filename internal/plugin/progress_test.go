package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/util/flowcontrol"
)

func TestProgressIsALineForEachStepInALog(t *testing.T) {
	var problems bytes.Buffer
	bar := New(genericiooptions.IOStreams{ErrOut: &problems}).Progress()
	bar.Step(Step{Done: 1, Total: 2, What: "access point fsap-1", State: "deleted"})
	bar.Step(Step{Done: 2, Total: 2, What: "access point fsap-2"})
	bar.End()
	if want := "1/2 access point fsap-1: deleted\n2/2 access point fsap-2\n"; problems.String() != want {
		t.Errorf("it prints %q, want %q", problems.String(), want)
	}
}

func TestProgressIsABarOnATerminal(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	bar := &Progress{out: &out, terminal: true, now: func() time.Time { return now }}
	bar.Step(Step{Done: 1, Total: 4, What: "fsap-1", State: "deleted"})
	// Too early to show.
	bar.drawn = now
	bar.Step(Step{Done: 2, Total: 4, What: "fsap-2", State: "deleted"})
	bar.Step(Step{Done: 3, Total: 4, What: "fsap-3", State: "refused: not ours", Problem: true})
	now = now.Add(time.Second)
	bar.Step(Step{Done: 4, Total: 4, What: "fsap-4", State: "deleted"})
	bar.End()
	const start = "\r\033[K"
	want := start + "[" + strings.Repeat("#", 7) + strings.Repeat(".", 23) + "] 1/4 fsap-1" +
		start + "fsap-3: refused: not ours\n" +
		start + "[" + strings.Repeat("#", 22) + strings.Repeat(".", 8) + "] 3/4 fsap-3" +
		start + "[" + strings.Repeat("#", 30) + "] 4/4 fsap-4\n"
	if out.String() != want {
		t.Errorf("it prints\n%q, want\n%q", out.String(), want)
	}
	out.Reset()
	now = now.Add(time.Second)
	bar.Step(Step{Total: 3, What: "OLM looks for the operator", State: "UpgradePending"})
	bar.End()
	if want := "] 0/3 OLM looks for the operator\nOLM looks for the operator: UpgradePending\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("it prints\n%q, want\n%q at the end", out.String(), want)
	}
}

func TestWaitingEndsWithTheAnswerTheTimeOrAnInterruption(t *testing.T) {
	p := New(genericiooptions.IOStreams{})
	p.Poll = time.Millisecond
	asked := 0
	yes := func(context.Context) (bool, error) { asked++; return asked == 3, nil }
	no := func(context.Context) (bool, error) { return false, nil }
	if err := p.Until(t.Context(), time.Minute, "it is there", yes); err != nil || asked != 3 {
		t.Errorf("%v after %d answers", err, asked)
	}
	err := p.Until(t.Context(), time.Millisecond, "it is there", no)
	if err == nil || err.Error() != "timed out after 1ms while waiting until it is there: run the command again" || Code(err) != Unfinished {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	err = p.Until(ended, time.Minute, "it is there", no)
	if err == nil || err.Error() != "interrupted while waiting until it is there: run the command again" || Code(err) != Unfinished {
		t.Error(err)
	}
	broken := errors.New("refused")
	if err := p.Until(t.Context(), time.Minute, "", func(context.Context) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestAClientThatForeseesTheEndOfAWaitDoesNotEndIt(t *testing.T) {
	p := New(genericiooptions.IOStreams{})
	p.Poll = time.Millisecond
	limiter := flowcontrol.NewTokenBucketRateLimiter(0.001, 1)
	err := p.Until(t.Context(), 5*time.Millisecond, "it is there", func(ctx context.Context) (bool, error) {
		// The first request passes. The second would have to wait for a quarter of an hour, which is longer than the whole wait.
		return false, limiter.Wait(ctx)
	})
	if err == nil || err.Error() != "timed out after 5ms while waiting until it is there: run the command again" || Code(err) != Unfinished {
		t.Errorf("%v, code %d", err, Code(err))
	}
}

func TestAnAnswerCountsMoreThanTheEndOfAWait(t *testing.T) {
	p := New(genericiooptions.IOStreams{})
	p.Poll = time.Millisecond
	for name, answer := range map[string]error{"yes": nil, "wrong": &ExitError{Code: Wrong, Err: errors.New("it has failed")}} {
		err := p.Until(t.Context(), time.Millisecond, "it is there", func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			return answer == nil, answer
		})
		if !errors.Is(err, answer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWaitingOutlivesAnAPIServerThatIsAway(t *testing.T) {
	said := &bytes.Buffer{}
	p := New(genericiooptions.IOStreams{ErrOut: said})
	p.Poll = time.Millisecond
	answers := []error{
		&url.Error{Op: "Get", URL: "https://api", Err: errors.New("connection refused")}, &url.Error{Op: "Get", URL: "https://api", Err: errors.New("connection refused")},
		fmt.Errorf("list nodes: %w", apierrors.NewServiceUnavailable("starting")),
	}
	err := p.Until(t.Context(), 0, "it is there", func(context.Context) (bool, error) {
		if len(answers) == 0 {
			return true, nil
		}
		answer := answers[0]
		answers = answers[1:]
		return false, answer
	})
	want := "the API server does not answer, trying again: Get \"https://api\": connection refused\n" +
		"the API server does not answer, trying again: list nodes: starting\n"
	if err != nil || said.String() != want {
		t.Errorf("%v, said:\n%s", err, said)
	}
}
