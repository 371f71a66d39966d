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
	// DefaultBudget is how many requests are made in any minute, log-in included.
	DefaultBudget = 20
	// maxAnswer bounds an answer, in bytes. A thousand share types with a page of text each are less.
	maxAnswer = 8 << 20
	// maxRound bounds all answers of a poll.
	maxRound = 2 * maxAnswer
)

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
		ResponseHeaderTimeout:  poll.RequestTimeout,
		MaxResponseHeaderBytes: 1 << 20, MaxConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}, nil
}

func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
