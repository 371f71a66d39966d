package apply

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// CRD returns an empty CustomResourceDefinition. Controllers use it to watch for a kind that the cluster does not serve yet.
func CRD() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return object
}

// WhenServed calls the function restart as soon as the cluster serves this version of a kind. Controllers call WhenServed for a kind that the cluster
// did not serve when the operator started. During the installation of a cluster, the kind can appear at any time. If the cluster serves only older
// versions of the kind, WhenServed does not call restart.
func WhenServed(version string, restart func(why string)) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	look := func(object client.Object) {
		if crd, ok := object.(*unstructured.Unstructured); ok && serves(crd, version) {
			restart("the cluster serves " + object.GetName() + " now")
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) { look(e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) { look(e.ObjectNew) },
	}
}

func serves(crd *unstructured.Unstructured, version string) bool {
	return IsEstablished(crd) && hasEntry(crd, func(one map[string]any) bool {
		return one["name"] == version && one["served"] == true
	}, "spec", "versions")
}

// IsEstablished reports whether the API server serves a CustomResourceDefinition.
func IsEstablished(crd *unstructured.Unstructured) bool {
	return hasEntry(crd, func(condition map[string]any) bool {
		return condition["type"] == "Established" && condition["status"] == "True"
	}, "status", "conditions")
}

func hasEntry(crd *unstructured.Unstructured, fits func(entry map[string]any) bool, list ...string) bool {
	entries, _, _ := unstructured.NestedSlice(crd.Object, list...)
	return slices.ContainsFunc(entries, func(entry any) bool {
		fields, ok := entry.(map[string]any)
		return ok && fits(fields)
	})
}
