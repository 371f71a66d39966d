package apply

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Written remembers what was written last, until the cache shows it. Without it, a reconcile that starts before the
// cache has caught up would write everything once more.
type Written struct {
	mutex   sync.Mutex
	objects map[Subject]*unstructured.Unstructured
}

// NewWritten returns an empty memory.
func NewWritten() *Written {
	return &Written{objects: map[Subject]*unstructured.Unstructured{}}
}

// Remember stores the answer to a write.
func (w *Written) Remember(object *unstructured.Unstructured) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.objects[SubjectOf(object)] = object
}

// Forget drops an object. Call it for every deletion that the cache reports: the object is gone, not late.
func (w *Written) Forget(subject Subject) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.objects, subject)
}

// Newer returns the newer one of the cached object, nil if the cache has none, and the remembered one.
func (w *Written) Newer(subject Subject, cached *unstructured.Unstructured) *unstructured.Unstructured {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	remembered := w.objects[subject]
	if remembered == nil {
		return cached
	}
	if cached == nil || older(cached, remembered) {
		return remembered.DeepCopy()
	}
	delete(w.objects, subject)
	return cached
}

// Pending tells whether the cache has still to show something that was written.
func (w *Written) Pending() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.objects) > 0
}

// Clear forgets everything. A watch that was interrupted can miss a deletion, so nothing is believed for long.
func (w *Written) Clear() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	clear(w.objects)
}

// older compares resource versions, which Kubernetes defines as growing integers (KEP-5504).
func older(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}
