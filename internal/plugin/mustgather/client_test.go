package mustgather_test

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/plugin/mustgather"
)

func TestTheClientReadsAndNeverWrites(t *testing.T) {
	folder := readOnly(t)
	object := &corev1.Pod{}
	must(t, folder.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "p"}, object))
	if got := names(t, folder, &corev1.PodList{}, client.InNamespace("b")); len(got) != 2 {
		t.Errorf("list: %q", got)
	}
	configuration := applycorev1.Pod("p", "a")
	patch := client.MergeFrom(object.DeepCopy())
	for verb, err := range map[string]error{
		"create":             folder.Create(t.Context(), object),
		"update":             folder.Update(t.Context(), object),
		"patch":              folder.Patch(t.Context(), object, patch),
		"apply":              folder.Apply(t.Context(), configuration),
		"delete":             folder.Delete(t.Context(), object),
		"delete all of":      folder.DeleteAllOf(t.Context(), object),
		"update the status":  folder.Status().Update(t.Context(), object),
		"patch the status":   folder.Status().Patch(t.Context(), object, patch),
		"apply the status":   folder.Status().Apply(t.Context(), configuration),
		"create an eviction": folder.SubResource("eviction").Create(t.Context(), object, &corev1.Pod{}),
	} {
		if !errors.Is(err, mustgather.ErrReadOnly) {
			t.Errorf("%s: got %v", verb, err)
		}
	}
	if err := folder.SubResource("scale").Get(t.Context(), object, &corev1.Pod{}); err == nil {
		t.Error("a subresource was read")
	}
	if got := names(t, folder, &corev1.PodList{}); len(got) != 4 {
		t.Errorf("after the writes there are pods %q", got)
	}
}

func TestTheClientKnowsTheKindsOfTheFolder(t *testing.T) {
	folder := readOnly(t)
	for _, test := range []struct {
		object     client.Object
		namespaced bool
	}{{&corev1.Pod{}, true}, {&storagev1.CSIDriver{}, false}} {
		namespaced, err := folder.IsObjectNamespaced(test.object)
		if err != nil || namespaced != test.namespaced {
			t.Errorf("%T is namespaced: %t, %v; want %t", test.object, namespaced, err, test.namespaced)
		}
	}
	if _, err := folder.IsObjectNamespaced(&appsv1.DaemonSet{}); !meta.IsNoMatchError(err) {
		t.Errorf("a kind that is not in the folder: got %v", err)
	}
	mapping, err := folder.RESTMapper().RESTMapping(schema.GroupKind{Group: "storage.k8s.io", Kind: "CSIDriver"})
	must(t, err)
	if mapping.Resource.Resource != "csidrivers" {
		t.Errorf("resource is %q", mapping.Resource.Resource)
	}
	gvk, err := folder.GroupVersionKindFor(&storagev1.CSIDriver{})
	must(t, err)
	if gvk != storagev1.SchemeGroupVersion.WithKind("CSIDriver") || !folder.Scheme().Recognizes(gvk) {
		t.Errorf("kind is %s", gvk)
	}
	if _, err := folder.GroupVersionKindFor(&metav1.PartialObjectMetadata{}); err == nil {
		t.Error("an object without a kind has one")
	}
}

func readOnly(t *testing.T) client.Client {
	t.Helper()
	made, err := sample(t).Client()
	must(t, err)
	return made
}
