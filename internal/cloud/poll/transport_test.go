package poll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheBudgetIsOfAnyMinute(t *testing.T) {
	now := time.Unix(1000, 0)
	limited := &Budget{Limit: 3, Now: func() time.Time { return now }}
	for _, step := range []struct {
		pass           time.Duration
		tried, granted int
		// wait is the expected Wait of the last request's error.
		wait time.Duration
	}{
		{0, 2, 2, 0},
		{30 * time.Second, 5, 1, 30 * time.Second},
		{30 * time.Second, 5, 2, 30 * time.Second},
		{10 * time.Second, 1, 0, 20 * time.Second},
		{time.Hour, 5, 3, time.Minute},
	} {
		now = now.Add(step.pass)
		granted, wait := 0, time.Duration(0)
		for range step.tried {
			err := limited.spend()
			var spent *SpentError
			switch {
			case err == nil:
				granted++
			case errors.As(err, &spent) && spent.Limit == 3:
				wait = spent.Wait
			default:
				t.Error(err)
			}
		}
		if granted != step.granted || wait != step.wait {
			t.Errorf("after %s, %d requests were granted, then wait %s: want %d, %s", step.pass, granted, wait, step.granted, step.wait)
		}
	}
}

// breaking is a reader that ends with an error.
type breaking struct{ err error }

func (f breaking) Read([]byte) (int, error) { return 0, f.err }

func TestAnAnswerThatIsTooLongOrCutOffIsNone(t *testing.T) {
	late := &net.OpError{Op: "read", Err: context.DeadlineExceeded}
	for name, tc := range map[string]struct {
		from io.Reader
		left int
		want error
	}{
		"short":               {strings.NewReader("12345"), 10, nil},
		"to fit":              {strings.NewReader("12345"), 6, nil},
		"too long":            {strings.NewReader("12345"), 4, ErrTooLong},
		"cut off":             {io.MultiReader(strings.NewReader("123"), breaking{errors.New("connection reset")}), 10, ErrCutOff},
		"not in time":         {breaking{late}, 10, late},
		"nobody waits for it": {breaking{fmt.Errorf("x: %w", context.Canceled)}, 10, context.Canceled},
	} {
		text, err := io.ReadAll(&bounded{ReadCloser: io.NopCloser(tc.from), left: tc.left, budget: &Budget{}})
		if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || len(text) > tc.left {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// answers is a cloud that returns a status, or an error if it is 0.
type answers int

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: int(a), Body: io.NopCloser(strings.NewReader("12345"))}, nil
}

func TestEveryRequestIsCountedOnceAndNoneIsMadeBeyondTheBudget(t *testing.T) {
	var counted []int
	transport := &Transport{
		Budget: &Budget{Limit: 3, Now: func() time.Time { return time.Unix(1000, 0) }}, MaxAnswer: 4,
		Count: func(status int) { counted = append(counted, status) },
	}
	for _, status := range []answers{200, 0, 503} {
		transport.Next = status
		response, err := transport.RoundTrip(&http.Request{})
		if status == 0 {
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("no answer: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(response.Body); !errors.Is(err, ErrTooLong) || response.Body.Close() != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
	_, err := transport.RoundTrip(&http.Request{}) //nolint:bodyclose // There is none.
	var spent *SpentError
	if !errors.As(err, &spent) || err.Error() != "the operator has reached its own limit of 3 requests in a minute" || !slices.Equal(counted, []int{200, 0, 503}) {
		t.Errorf("%v, counted %v", err, counted)
	}
}

func TestTheAnswersOfARoundAreBoundedTogether(t *testing.T) {
	transport := &Transport{
		Next: answers(200), Budget: &Budget{Limit: 100, MaxRound: 12, Now: func() time.Time { return time.Unix(1000, 0) }}, MaxAnswer: 100, Count: func(int) {},
	}
	for round := range 2 {
		transport.Budget.Begin()
		for i, want := range []error{nil, nil, ErrTooMuch, ErrTooMuch} {
			response, err := transport.RoundTrip(&http.Request{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(response.Body); !errors.Is(err, want) || response.Body.Close() != nil {
				t.Errorf("round %d, answer %d: %v, want %v", round, i, err, want)
			}
		}
	}
}
