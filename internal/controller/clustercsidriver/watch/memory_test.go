package watch

import (
	"strings"
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

// A cache may transform an object more than once. If that counted as a change, a restart of the operator would restart
// the pods of the driver.
func TestHashingTwiceChangesNothing(t *testing.T) {
	secret := &corev1.Secret{Data: map[string][]byte{"key": []byte("made-up"), "empty": nil}}
	if _, err := HashSecret(secret); err != nil || strings.Contains(string(secret.Data["key"]), "made-up") {
		t.Fatalf("not hashed: %s, %v", secret.Data["key"], err)
	}
	once := secret.DeepCopy()
	_, _ = HashSecret(secret)
	if diff := cmp.Diff(once, secret); diff != "" {
		t.Errorf("once and twice differ:\n%s", diff)
	}
}
