package image

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Transport returns an HTTP transport for registries. It refuses requests without TLS, except requests to this machine. Argument "authorities" is the
// path of a file with CA certificates that the transport also trusts. The path can be empty.
func Transport(authorities string) (http.RoundTripper, error) {
	if authorities == "" {
		return httpsOnly{remote.DefaultTransport}, nil
	}
	text, err := os.ReadFile(filepath.Clean(authorities))
	if err != nil {
		return nil, fmt.Errorf("CA=%s: %w", authorities, err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("certificates of this machine: %w", err)
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("CA=%s: the file has no certificate in PEM format", authorities)
	}
	plain, ok := remote.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport is not one of HTTP")
	}
	plain = plain.Clone()
	plain.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return httpsOnly{plain}, nil
}

// httpsOnly refuses requests without TLS to other machines. For private addresses, go-containerregistry v0.22.1 also tries HTTP, which would send
// the password in clear (pkg/name/registry.go, Scheme).
type httpsOnly struct{ http.RoundTripper }

// RoundTrip sends a request, unless it would go to another machine without TLS.
func (t httpsOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if host := request.URL.Hostname(); request.URL.Scheme == "http" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return nil, fmt.Errorf("the registry %s must use TLS: set CA= to a file with the registry's CA certificates", host)
	}
	return t.RoundTripper.RoundTrip(request) //nolint:wrapcheck // It stands for the transport.
}
