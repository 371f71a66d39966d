package driver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Administrators paste what "openssl s_client -showcerts" prints. What is handed on is what each program loads: Go's own, which this operator
// uses, and client-go's, which the drivers of OpenStack use and which end at a certificate that they can't parse.
func TestABundleIsHandedOnWithItsCertificatesOnly(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, content []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
	}
	one := block("CERTIFICATE", made)
	const shown = " 0 s:CN = keystone.example\n   i:CN = example CA\n   v:NotBefore: Jan  1 00:00:00 2026 GMT\n"
	for name, tc := range map[string]struct{ bundle, want string }{
		"nothing":                   {},
		"text":                      {bundle: "a certificate"},
		"one":                       {one, one},
		"two":                       {one + one, one + one},
		"what openssl shows":        {"CONNECTED(00000003)\n---\nCertificate chain\n" + shown + one + shown + one + "---\nServer certificate\n", one + one},
		"a private key before":      {block("PRIVATE KEY", []byte("made up")) + one, one},
		"a private key alone":       {bundle: block("PRIVATE KEY", []byte("made up"))},
		"a trusted certificate":     {block("TRUSTED CERTIFICATE", made) + one, one},
		"one with headers":          {bundle: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: made}))},
		"one that can't be parsed":  {block("CERTIFICATE", []byte("made up")) + one, one},
		"a part of one":             {one[:len(one)/2] + "\n" + one, one},
		"lines that end in Windows": {strings.ReplaceAll(one, "\n", "\r\n"), one},
	} {
		got := driver.Certificates(tc.bundle)
		if got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tc.want)
		}
		if loads := x509.NewCertPool().AppendCertsFromPEM([]byte(tc.bundle)); loads != (got != "") {
			t.Errorf("%s: the operator loads it %t", name, loads)
		}
		if _, err := cert.ParseCertsPEM([]byte(got)); (err == nil) != (got != "") {
			t.Errorf("%s: the driver: %v", name, err)
		}
	}
}
