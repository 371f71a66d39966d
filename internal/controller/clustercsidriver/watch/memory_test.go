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
	bundle := &corev1.ConfigMap{Data: map[string]string{"ca-bundle.crt": "certificates"}}
	for _, hash := range []func(any) (any, error){HashSecret, hashBundle} {
		for _, object := range []any{secret, bundle} {
			if _, err := hash(object); err != nil {
				t.Fatal(err)
			}
		}
	}
	if strings.Contains(string(secret.Data["key"]), "made-up") || strings.Contains(bundle.Data["ca-bundle.crt"], "certificates") {
		t.Fatalf("not hashed: %s, %s", secret.Data["key"], bundle.Data["ca-bundle.crt"])
	}
	onceSecret, onceBundle := secret.DeepCopy(), bundle.DeepCopy()
	_, _ = HashSecret(secret)
	_, _ = hashBundle(bundle)
	if diff := cmp.Diff(onceSecret, secret) + cmp.Diff(onceBundle, bundle); diff != "" {
		t.Errorf("once and twice differ:\n%s", diff)
	}
}

func TestConfigMapsThatNobodyFillsInAreKept(t *testing.T) {
	dashboard := &corev1.ConfigMap{Data: map[string]string{"dashboard.json": "{}"}}
	if _, err := hashBundle(dashboard); err != nil || dashboard.Data["dashboard.json"] != "{}" {
		t.Errorf("error %v, data %v: drift would not be found, or for ever", err, dashboard.Data)
	}
}
