package vsphere

import (
	"crypto/sha1" //nolint:gosec // Thumbprints in the configuration are SHA-1 or SHA-256.
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
	// DefaultBudget limits requests to a vCenter per minute, including logins and logouts. A poll needs about 15 requests. In the busiest minute, in
	// which a driver is removed right after its installation, there are about six polls.
	DefaultBudget = 120
	// DefaultMaxAnswer limits a response, in bytes. A page with 1,000 VMs has less than 2 MB.
	DefaultMaxAnswer = 32 << 20
	// DefaultMaxRound limits the bytes of all responses of a vCenter in one poll. The largest vCenter has 45,000 VMs. Each VM needs 400 bytes, and each
	// node 2 kB.
	DefaultMaxRound = 64 << 20
)

// statuses returns an error for error statuses, which govmomi ignores. It allows status 500, because SOAP faults have this status.
type statuses struct{ http.RoundTripper }

// RoundTrip does not check responses of the REST API. The caller of the REST API checks them.
func (s statuses) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.RoundTripper.RoundTrip(request)
	rest := strings.HasPrefix(request.URL.Path, restPath)
	if err != nil || rest || response.StatusCode == http.StatusOK || response.StatusCode == http.StatusInternalServerError {
		return response, err //nolint:wrapcheck // failed converts it, and needs its type.
	}
	_ = response.Body.Close()
	failure := statusError(response.StatusCode)
	if failure.Reason == Conflict {
		failure.Reason = InvalidAnswer
	}
	return nil, failure
}

// newTransport creates a transport that trusts the system's CAs, the PEM certificates, and the configured thumbprint.
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
		// VerifyConnection verifies the certificate instead, because Go's own verification does not accept thumbprints.
		settings.InsecureSkipVerify = true
		settings.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, pool, config) }
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings, TLSHandshakeTimeout: 10 * time.Second,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		// The pause between two polls is longer than IdleConnTimeout, so connections close between polls.
		MaxResponseHeaderBytes: 1 << 20, MaxConnsPerHost: 4, IdleConnTimeout: time.Minute,
	}, nil
}

// verify accepts a certificate from a trusted CA, or with the thumbprint. Like the driver, it ignores the thumbprint if the configuration has a
// ca-file (kubernetes-sigs/vsphere-csi-driver bf8090256, pkg/common/cns-lib/vsphere/virtualcenter.go).
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
		wanted == fmt.Sprintf("%X", sha1.Sum(leaf.Raw)) { //nolint:gosec // Users have SHA-1 thumbprints.
		return nil
	}
	return err //nolint:wrapcheck // failed converts it, and needs its type.
}
