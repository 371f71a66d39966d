package vsphere

import (
	"context"
	"crypto/sha1" //nolint:gosec // A thumbprint of the configuration is of SHA-1 or SHA-256.
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/csi-operators/csi-operators/internal/vsphere/cloudconfig"
)

const (
	// DefaultTimeout is how long a request may take.
	DefaultTimeout = 30 * time.Second
	// DefaultBudget is how many requests are made to a vCenter in any minute, logging in and out included. A poll needs about 15, and those who
	// install a driver and remove it at once make half a dozen polls.
	DefaultBudget = 120
	// maxAnswer bounds an answer, in bytes. A page with 1,000 VMs has less than 2 MB.
	maxAnswer = 32 << 20
)

// budget is how many requests may be made in any minute. It outlives sessions, so that new credentials make no new budget.
type budget struct {
	limit int
	now   func() time.Time

	mutex sync.Mutex
	spent []time.Time
}

// spend takes one request, if there is one.
func (b *budget) spend() bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now, kept := b.now(), b.spent[:0]
	for _, at := range b.spent {
		if now.Sub(at) < time.Minute {
			kept = append(kept, at)
		}
	}
	if b.spent = kept; len(kept) >= b.limit {
		return false
	}
	b.spent = append(b.spent, now)
	return true
}

// transport counts and bounds everything that goes to a vCenter.
type transport struct {
	next   *http.Transport
	budget *budget
	// count is told of each request: 0 if there was no answer, else the status.
	count func(status int)
}

// RoundTrip makes a request if the budget allows it.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !t.budget.spend() {
		return nil, &Error{Reason: Overloaded, Why: fmt.Sprintf("%d requests were made in the last minute: %s", t.budget.limit, adviceWait)}
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		t.count(0)
		return nil, err //nolint:wrapcheck // failed makes a sentence of it, and needs its type.
	}
	t.count(response.StatusCode)
	// SOAP has its faults in answers with status 500. What another status means, govmomi does not tell.
	soap := !strings.HasPrefix(request.URL.Path, restPath)
	if soap && response.StatusCode != http.StatusOK && response.StatusCode != http.StatusInternalServerError {
		_ = response.Body.Close()
		failure := statusError(response.StatusCode)
		if failure.Reason == Conflict {
			failure.Reason = InvalidAnswer
		}
		return nil, failure
	}
	response.Body = &bounded{ReadCloser: response.Body, left: maxAnswer}
	return response, nil
}

// bounded ends with an error where an answer is too long, or where the connection breaks.
type bounded struct {
	io.ReadCloser
	left int
}

// Read reads up to the bound.
func (b *bounded) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(into[:min(len(into), b.left)])
	b.left -= n
	var late net.Error
	if err == nil || errors.Is(err, io.EOF) || errors.As(err, &late) && late.Timeout() || errors.Is(err, context.Canceled) {
		return n, err //nolint:wrapcheck // The decoder compares it with io.EOF.
	}
	return n, errCutOff
}

// newTransport trusts what the system, the PEM text and the configuration say.
func newTransport(config cloudconfig.VCenterConfig, roots []byte) (*http.Transport, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if len(roots) > 0 && !pool.AppendCertsFromPEM(roots) {
		const why = "the CA bundle has no certificate in PEM: correct trustedCA of Proxy cluster"
		return nil, &Error{Server: config.Server, What: "read the CA bundle", Reason: UntrustedCertificate, Why: why}
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	switch {
	case config.Insecure:
		settings.InsecureSkipVerify = true
	case config.Thumbprint != "" && config.CAFile == "":
		// The certificate is verified, in VerifyConnection.
		settings.InsecureSkipVerify = true
		settings.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, pool, config) }
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings, TLSHandshakeTimeout: 10 * time.Second,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		// The next poll finds the connection closed, and opens another one.
		MaxResponseHeaderBytes: 1 << 20, MaxConnsPerHost: 4, IdleConnTimeout: time.Minute,
	}, nil
}

// verify takes a certificate of a trusted CA, or the one of the thumbprint. The driver does not look at a thumbprint beside a ca-file
// (kubernetes-sigs/vsphere-csi-driver, pkg/common/cns-lib/vsphere/virtualcenter.go), so neither does this.
func verify(state tls.ConnectionState, pool *x509.CertPool, config cloudconfig.VCenterConfig) error {
	if len(state.PeerCertificates) == 0 {
		return x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}
	}
	leaf, others := state.PeerCertificates[0], x509.NewCertPool()
	for _, one := range state.PeerCertificates[1:] {
		others.AddCert(one)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: others, DNSName: config.Server})
	wanted := strings.ToUpper(strings.ReplaceAll(config.Thumbprint, ":", ""))
	if err == nil || wanted == fmt.Sprintf("%X", sha256.Sum256(leaf.Raw)) ||
		wanted == fmt.Sprintf("%X", sha1.Sum(leaf.Raw)) { //nolint:gosec // Users have thumbprints of SHA-1.
		return nil
	}
	return err //nolint:wrapcheck // failed makes a sentence of it, and needs its type.
}
