package clustercsidriver

import "testing"

func TestWhatIsNoCertificateIsNotPEM(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":       "",
		"text":          "a certificate",
		"a key":         "-----BEGIN RSA PRIVATE KEY-----\nbWFkZSB1cA==\n-----END RSA PRIVATE KEY-----\n",
		"a made-up one": "-----BEGIN CERTIFICATE-----\nbWFkZSB1cA==\n-----END CERTIFICATE-----\n",
		"a part of one": "-----BEGIN CERTIFICATE-----\nbWFkZSB1cA==\n",
	} {
		if isPEM(text) {
			t.Errorf("%s would end the driver", name)
		}
	}
}
