package vsphere

import (
	"crypto/sha1" //nolint:gosec // A thumbprint of the configuration is of SHA-1 or SHA-256.
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

const (
	// DefaultBudget is how many requests are made to a vCenter in any minute, logging in and out included. A poll needs about 15, and those who
	// install a driver and remove it at once make half a dozen polls.
	DefaultBudget = 120
	// maxAnswer bounds an answer, in bytes. A page with 1,000 VMs has less than 2 MB.
	maxAnswer = 32 << 20
	// DefaultMaxRound bounds all answers of a poll of one vCenter. The largest has 45,000 VMs, of which 400 bytes each are read, and 2 kB of each node.
	DefaultMaxRound = 64 << 20
)

// statuses refuses answers whose status govmomi does not look at. SOAP has its faults in answers with status 500.
type statuses struct{ http.RoundTripper }

// RoundTrip leaves the REST API alone, whose statuses are looked at.
func (s statuses) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.RoundTripper.RoundTrip(request)
	rest := strings.HasPrefix(request.URL.Path, restPath)
	if err != nil || rest || response.StatusCode == http.StatusOK || response.StatusCode == http.StatusInternalServerError {
		return response, err //nolint:wrapcheck // failed makes a sentence of it, and needs its type.
	}
	_ = response.Body.Close()
	failure := statusError(response.StatusCode)
	if failure.Reason == Conflict {
		failure.Reason = InvalidAnswer
	}
	return nil, failure
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
