package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A process reads the certificates of the system once, so that the test is a process of its own.
func TestAuthoritiesAreTrustedWhereNoFilesAre(t *testing.T) {
	const marker = "TEST_WITHOUT_FILES"
	if os.Getenv(marker) == "" {
		missing := t.TempDir() + "/missing"
		test := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		test.Env = []string{marker + "=1", "SSL_CERT_FILE=" + missing, "SSL_CERT_DIR=" + missing}
		if output, err := test.CombinedOutput(); err != nil || !strings.Contains(string(output), "--- PASS: "+t.Name()) {
			t.Errorf("%v: %s", err, output)
		}
		return
	}
	roots, err := x509.SystemCertPool()
	if err != nil || roots.Equal(x509.NewCertPool()) {
		t.Errorf("nobody is trusted: %v", err)
	}
}
