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

// ErrCutOff means that a response was truncated. It also matches io.ErrUnexpectedEOF. ErrTooLong means that one response is longer than MaxAnswer.
// ErrTooMuch means that all responses of a poll together are longer than MaxRound.
var (
	ErrCutOff  = error(cutOffError{})
	ErrTooLong = errors.New("the answer is too long")
	ErrTooMuch = errors.New("the answers of one poll together are too long")
)

type cutOffError struct{}

func (cutOffError) Error() string { return "the answer is truncated" }

// Is makes ErrCutOff match io.ErrUnexpectedEOF, because the AWS client retries a request after io.ErrUnexpectedEOF.
func (cutOffError) Is(target error) bool { return target == io.ErrUnexpectedEOF }

// Budget limits the requests in every minute. It also limits the size of all responses in a round, which is the time between two calls of Begin. A
// Budget outlives clients, so that new credentials don't reset it.
type Budget struct {
	// Limit is the number of requests per minute; 0 means no limit.
	Limit int
	// MaxRound limits the size of all responses since the call of Begin, in bytes. 0 means no limit.
	MaxRound int
	Now      func() time.Time

	mutex sync.Mutex
	spent []time.Time
	// read is the size of this round's responses, in bytes.
	read int
}

// Begin starts a round.
func (b *Budget) Begin() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.read = 0
}

// add counts bytes of a response. The error is ErrTooMuch.
func (b *Budget) add(bytes int) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.read += bytes; b.MaxRound > 0 && b.read > b.MaxRound {
		return ErrTooMuch
	}
	return nil
}

// SpentError means that the client did not send a request, because the request would exceed the limit. Wait is the time until the next request is
// possible.
type SpentError struct {
	Limit int
	Wait  time.Duration
}

func (e *SpentError) Error() string {
	return fmt.Sprintf("the operator has reached its own limit of %d requests in a minute", e.Limit)
}

// spend counts one request. The error is a *SpentError.
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

// Transport counts and limits requests to a cloud.
type Transport struct {
	Next   http.RoundTripper
	Budget *Budget
	// MaxAnswer is the maximum size of a response, in bytes. Reading a longer response fails with ErrTooLong. Reading a truncated response fails with
	// ErrCutOff. Reading fails with ErrTooMuch if all responses of the round together exceed Budget.MaxRound.
	MaxAnswer int
	// Count, if set, is called for each request, with the HTTP status. Without a response, the status is 0.
	Count func(status int)
}

// RoundTrip sends a request if the budget allows it.
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

// bounded is the body of a response. Reading the body fails if the response exceeds a limit or is truncated.
type bounded struct {
	io.ReadCloser
	left   int
	budget *Budget
}

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
