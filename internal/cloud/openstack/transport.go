package openstack

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
)

const (
	// DefaultBudget limits requests per minute, including logins.
	DefaultBudget = 20
	// DefaultMaxAnswer limits the size of a response, in bytes. A response with a thousand share types, each with a long description, is smaller.
	DefaultMaxAnswer = 8 << 20
	// maxRound limits the total size of the responses of a poll, in bytes.
	maxRound = 2 * DefaultMaxAnswer
)

// newTransport creates a transport that trusts the system's CAs and the PEM certificates.
func newTransport(roots []byte, insecure bool) (*http.Transport, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("OpenStack: read the certificates that the system trusts: %w", err)
	}
	if len(roots) > 0 && !pool.AppendCertsFromPEM(roots) {
		const why = "the CA bundle has no certificate"
		return nil, &Error{
			What: "read the CA of the cloud", Reason: InvalidCredentials, Why: why, err: errors.New(why),
			Do: "correct ca-bundle.pem of the cloud's configuration: it must be PEM",
		}
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	settings.InsecureSkipVerify = insecure // As clouds.yaml requests.
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        settings,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  poll.RequestTimeout,
		MaxResponseHeaderBytes: 1 << 20, MaxConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}, nil
}

func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
