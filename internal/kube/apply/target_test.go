package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestATargetNamesOneObjectAndNothingElseOfIt(t *testing.T) {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "one", UID: "1-2", ResourceVersion: "7", Labels: map[string]string{"a": "b"}},
		Data:       map[string]string{"c": "d"},
	}
	want := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "here", "name": "one", "uid": "1-2"},
	}
	if diff := cmp.Diff(want, Target(corev1.SchemeGroupVersion.WithKind("ConfigMap"), object).Object); diff != "" {
		t.Error(diff)
	}
	object.Namespace = ""
	want["metadata"] = map[string]any{"name": "one", "uid": "1-2"}
	if diff := cmp.Diff(want, Target(corev1.SchemeGroupVersion.WithKind("ConfigMap"), object).Object); diff != "" {
		t.Errorf("without a namespace: %s", diff)
	}
}
