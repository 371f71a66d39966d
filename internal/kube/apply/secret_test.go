package apply

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// The answer to a write is compared with the cache, which has hashes.
func TestTheContentOfASecretIsRememberedAsTheCacheHasIt(t *testing.T) {
	secret := &corev1.Secret{Data: map[string][]byte{"key": []byte("plain"), "empty": nil}}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(secret)
	if err != nil {
		t.Fatal(err)
	}
	answer := &unstructured.Unstructured{Object: fields}
	answer.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	delete(answer.Object["data"].(map[string]any), "empty")
	if err := hashData(answer); err != nil {
		t.Fatal(err)
	}
	remembered, err := typed[corev1.Secret](answer)
	if err != nil {
		t.Fatal(err)
	}
	hash := ContentHash(secret.Data)
	delete(secret.Data, "empty")
	HashData(secret)
	if diff := cmp.Diff(secret.Data, remembered.Data); diff != "" || strings.Contains(string(remembered.Data["key"]), "plain") {
		t.Errorf("-cache +remembered:\n%s", diff)
	}
	if again := ContentHash(map[string][]byte{"key": remembered.Data["key"], "empty": nil}); again != hash {
		t.Errorf("the hash of the content is %s, and %s where it is hashed", hash, again)
	}
	answer.Object["data"] = map[string]any{"key": "s3cr3t: no base64"}
	if err := hashData(answer); err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("error %v", err)
	}
	config := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"key": "text"}}}
	config.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err := hashData(config); err != nil || config.Object["data"].(map[string]any)["key"] != "text" {
		t.Errorf("a ConfigMap is changed: %v, %v", config.Object, err)
	}
}
