package fakevsphere

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

// certificate is that of a server.
type certificate struct {
	tls        tls.Certificate
	ca         []byte
	thumbprint string
}

// newCertificate is one for an IP address and localhost, signed by a new CA or by itself.
func newCertificate(address string, selfSigned bool) (certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "a vCenter"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.ParseIP(address)}, DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, fmt.Errorf("key of a vCenter: %w", err)
	}
	issuer, issuerKey := template, key
	if !selfSigned {
		issuer = &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of a vCenter"}, NotBefore: template.NotBefore, NotAfter: template.NotAfter,
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
		if issuerKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return certificate{}, fmt.Errorf("key of a vCenter's CA: %w", err)
		}
	}
	root, err := x509.CreateCertificate(rand.Reader, issuer, issuer, &issuerKey.PublicKey, issuerKey)
	if err != nil {
		return certificate{}, fmt.Errorf("CA of a vCenter: %w", err)
	}
	leaf := root
	if !selfSigned {
		if leaf, err = x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, issuerKey); err != nil {
			return certificate{}, fmt.Errorf("certificate of a vCenter: %w", err)
		}
	}
	return certificate{
		tls: tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key},
		ca:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}), thumbprint: thumbprint(leaf),
	}, nil
}

// thumbprint is the SHA-1, such as "0F:2B:...".
func thumbprint(der []byte) string {
	var parts []string
	for _, one := range sha1.Sum(der) {
		parts = append(parts, fmt.Sprintf("%02X", one))
	}
	return strings.Join(parts, ":")
}
