package apply

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Target returns the beginning of a patch or of a server-side apply for an existing object. It has the object's UID. So the request fails if the
// object does not exist, or if a new object has the same name.
func Target(kind schema.GroupVersionKind, object client.Object) *unstructured.Unstructured {
	target := &unstructured.Unstructured{Object: map[string]any{}}
	target.SetGroupVersionKind(kind)
	target.SetNamespace(object.GetNamespace())
	target.SetName(object.GetName())
	target.SetUID(object.GetUID())
	return target
}
