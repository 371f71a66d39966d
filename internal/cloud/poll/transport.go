package poll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// ErrCutOff is what the end of an answer is that came too early, and an io.ErrUnexpectedEOF as well. ErrTooLong is what it is if there are too many
// bytes. ErrTooMuch is the same for all answers of a round.
var (
	ErrCutOff  = error(cutOffError{})
	ErrTooLong = errors.New("the answer is too long")
	ErrTooMuch = errors.New("the answers of one poll are too long together")
)

type cutOffError struct{}

// Error says that the end is missing.
func (cutOffError) Error() string { return "the answer is cut off" }

// Is makes it an io.ErrUnexpectedEOF: the client of AWS repeats such a request.
func (cutOffError) Is(target error) bool { return target == io.ErrUnexpectedEOF }

// Budget is how many requests may be made in any minute, and how long the answers of a round may be. It outlives clients, so that new credentials
// make no new budget.
type Budget struct {
	// Limit bounds the requests of a minute; 0 bounds nothing.
	Limit int
	// MaxRound bounds what is answered after Begin, in bytes; 0 bounds nothing.
	MaxRound int
	Now      func() time.Time

	mutex sync.Mutex
	spent []time.Time
	// read is what was answered in this round, in bytes.
	read int
}

// Begin begins a round.
func (b *Budget) Begin() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.read = 0
}

// add counts what was answered. The error is ErrTooMuch.
func (b *Budget) add(bytes int) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.read += bytes; b.MaxRound > 0 && b.read > b.MaxRound {
		return ErrTooMuch
	}
	return nil
}

// SpentError is why a request was not made: the budget is spent. Wait is how long until the next one may be made.
type SpentError struct {
	Limit int
	Wait  time.Duration
}

// Error says how many requests there were.
func (e *SpentError) Error() string {
	return fmt.Sprintf("%d requests were made in the last minute", e.Limit)
}

// spend takes one request. The error is a *SpentError.
func (b *Budget) spend() error {
	if b.Limit == 0 {
		return nil
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now, kept := b.Now(), b.spent[:0]
	for _, at := range b.spent {
		if now.Sub(at) < time.Minute {
			kept = append(kept, at)
		}
	}
	if b.spent = kept; len(kept) >= b.Limit {
		return &SpentError{Limit: b.Limit, Wait: time.Minute - now.Sub(kept[0])}
	}
	b.spent = append(b.spent, now)
	return nil
}

// Transport counts and bounds everything that goes to a cloud.
type Transport struct {
	Next   http.RoundTripper
	Budget *Budget
	// MaxAnswer bounds an answer, in bytes. One that is longer ends with ErrTooLong, one that breaks with ErrCutOff, and one that the round has no
	// room for with ErrTooMuch.
	MaxAnswer int
	// Count, if set, is told of each request: 0 if there was no answer, else the status.
	Count func(status int)
}

// RoundTrip makes a request if the budget allows it.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.Budget.spend(); err != nil {
		return nil, err
	}
	response, err := t.Next.RoundTrip(request)
	if err != nil {
		t.count(0)
		return nil, err //nolint:wrapcheck // The client makes a sentence of it, and needs its type.
	}
	t.count(response.StatusCode)
	response.Body = &bounded{ReadCloser: response.Body, left: t.MaxAnswer, budget: t.Budget}
	return response, nil
}

func (t *Transport) count(status int) {
	if t.Count != nil {
		t.Count(status)
	}
}

// bounded ends with an error where an answer is too long, or where the connection breaks.
type bounded struct {
	io.ReadCloser
	left   int
	budget *Budget
}

// Read reads up to the bounds.
func (b *bounded) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLong
	}
	n, err := b.ReadCloser.Read(into[:min(len(into), b.left)])
	b.left -= n
	if failure := b.budget.add(n); failure != nil {
		return n, failure
	}
	var late net.Error
	if err == nil || errors.Is(err, io.EOF) || errors.As(err, &late) && late.Timeout() || errors.Is(err, context.Canceled) {
		return n, err //nolint:wrapcheck // The decoder compares it with io.EOF.
	}
	return n, ErrCutOff
}
