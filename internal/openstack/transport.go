package openstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// DefaultTimeout is how long a request may take.
	DefaultTimeout = 30 * time.Second
	// DefaultBudget is how many requests are made in any minute, log-in included.
	DefaultBudget = 20
	// maxAnswer bounds an answer, in bytes. A thousand share types with a page of text each are less.
	maxAnswer = 8 << 20
)

// errCutOff is what the end of an answer is that came too early, or not at all.
var errCutOff = errors.New("the answer is cut off or too long")

// Budget is how many requests may be made in any minute. It outlives clients, so that new credentials make no new budget.
type Budget struct {
	// Limit is DefaultBudget if it is 0.
	Limit int
	Now   func() time.Time

	mutex sync.Mutex
	spent []time.Time
}

// spend takes one request, or says how long to wait for the next.
func (b *Budget) spend() (wait time.Duration, ok bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now, limit := b.Now(), b.Limit
	if limit == 0 {
		limit = DefaultBudget
	}
	kept := b.spent[:0]
	for _, at := range b.spent {
		if now.Sub(at) < time.Minute {
			kept = append(kept, at)
		}
	}
	b.spent = kept
	if len(b.spent) >= limit {
		return time.Minute - now.Sub(b.spent[0]), false
	}
	b.spent = append(b.spent, now)
	return 0, true
}

// transport counts and bounds everything that goes to the cloud.
type transport struct {
	next   http.RoundTripper
	budget *Budget
	// count is told of each request: "" if there was no answer, else the status.
	count func(status int)
}

// RoundTrip makes a request if the budget allows it.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if wait, ok := t.budget.spend(); !ok {
		return nil, &Error{
			What: "ask the cloud", Reason: BudgetSpent, RetryAfter: wait, Why: "the budget of requests a minute is spent",
			Do: "nothing is to be done if it happens once; else report it as a bug",
		}
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		t.count(0)
		return nil, err //nolint:wrapcheck // failed makes a sentence of it, and needs its type.
	}
	t.count(response.StatusCode)
	response.Body = &bounded{ReadCloser: response.Body, left: maxAnswer}
	return response, nil
}

// bounded ends with an error where it would be too long.
type bounded struct {
	io.ReadCloser
	left int
}

// Read reads up to the bound.
func (b *bounded) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, errCutOff
	}
	n, err := b.ReadCloser.Read(into[:min(len(into), b.left)])
	b.left -= n
	var late net.Error
	if err == nil || errors.Is(err, io.EOF) || errors.As(err, &late) && late.Timeout() || errors.Is(err, context.Canceled) {
		return n, err //nolint:wrapcheck // The decoder compares it with io.EOF.
	}
	return n, errCutOff
}

// newTransport trusts what the system and the PEM text say.
func newTransport(roots []byte, insecure bool) (*http.Transport, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("OpenStack: read the certificates that the system trusts: %w", err)
	}
	if len(roots) > 0 && !pool.AppendCertsFromPEM(roots) {
		const why = "there is no certificate among those to trust"
		return nil, &Error{
			What: "read the CA of the cloud", Reason: InvalidCredentials, Why: why, err: errors.New(why),
			Do: "correct ca-bundle.pem of the cloud's configuration: it must be PEM",
		}
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	settings.InsecureSkipVerify = insecure // clouds.yaml says so.
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        settings,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  DefaultTimeout,
		MaxResponseHeaderBytes: 1 << 20, MaxConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}, nil
}

func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
