package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/csi-operators/csi-operators/devcluster/internal/pki"
)

func newAuthority(t *testing.T) *pki.Authority {
	t.Helper()
	authority, err := pki.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func parse(t *testing.T, cert []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(cert)
	if block == nil {
		t.Fatal("the certificate is not PEM")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestServingCertificateIsTrustedForItsHostsOnly(t *testing.T) {
	authority := newAuthority(t)
	pair, err := authority.Serving("server", "127.0.0.1", "db.ns.svc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(pair.Cert, pair.Key); err != nil {
		t.Fatalf("certificate and key do not belong together: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Cert)
	cert := parse(t, pair.Cert)
	for host, want := range map[string]bool{"127.0.0.1": true, "db.ns.svc": true, "10.0.0.1": false, "other.ns.svc": false} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
		if got := err == nil; got != want {
			t.Errorf("trusted for %s: got %v, want %v (%v)", host, got, want, err)
		}
	}
}

func TestClientCertificateCannotServe(t *testing.T) {
	authority := newAuthority(t)
	pair, err := authority.Client("someone", "a-group")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Cert)
	cert := parse(t, pair.Cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("not accepted as a client certificate: %v", err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("accepted as a server certificate")
	}
	if got := cert.Subject.Organization; len(got) != 1 || got[0] != "a-group" {
		t.Errorf("organizations: got %v, want [a-group]", got)
	}
}

func TestLoadedAuthorityStillSigns(t *testing.T) {
	authority := newAuthority(t)
	loaded, err := pki.LoadAuthority(authority.Pair)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := loaded.Serving("server", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	if !authority.Signed(pair.Cert) {
		t.Error("the original authority does not recognise what the loaded one signed")
	}
	if newAuthority(t).Signed(pair.Cert) {
		t.Error("another authority of the same name claims the signature")
	}
}

func TestLoadAuthorityRefusesWhatIsNotPEM(t *testing.T) {
	if _, err := pki.LoadAuthority(pki.Pair{Cert: []byte("x"), Key: []byte("y")}); err == nil {
		t.Error("got no error")
	}
}
