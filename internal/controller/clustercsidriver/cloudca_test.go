package clustercsidriver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The rest is somebody else's, and may be large.
func TestOnlyTheCAOfACloudIsKeptInMemory(t *testing.T) {
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "kube-cloud-config", ResourceVersion: "7", Labels: map[string]string{"a": "b"}},
		Data:       map[string]string{"cloud.conf": "settings", "ca-bundle.pem": "certificates"},
		BinaryData: map[string][]byte{"more": {1}},
	}
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "kube-cloud-config", ResourceVersion: "7"},
		Data:       map[string]string{"ca-bundle.pem": "certificates"},
	}
	// A cache may transform an object more than once.
	for range 2 {
		if _, err := keepCloudCA(config); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, config); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	}
}

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
