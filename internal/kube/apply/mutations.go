package apply

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StaleAfter is how long the cache may take to show what was written before it is no longer waited for.
const StaleAfter = 30 * time.Second

// MutationCache remembers what was written last, until the cache shows it. Without it, a reconcile that starts before the
// cache has caught up would write everything once more.
type MutationCache struct {
	mutex   sync.Mutex
	objects map[Subject]*unstructured.Unstructured
	// pending is since when ForgetStale has seen something that the cache does not show.
	pending time.Time
}

// NewMutationCache returns an empty memory.
func NewMutationCache() *MutationCache {
	return &MutationCache{objects: map[Subject]*unstructured.Unstructured{}}
}

// Remember stores the answer to a write.
func (w *MutationCache) Remember(object *unstructured.Unstructured) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.objects[SubjectOf(object)] = object
}

// RememberAs stores the answer to a write, and returns it typed. It is newer than what the cache has.
func RememberAs[T any](w *MutationCache, answer *unstructured.Unstructured) (*T, error) {
	w.Remember(answer)
	return typed[T](answer)
}

// Forget drops an object. Call it after a deletion: the object is gone, not late.
func (w *MutationCache) Forget(subject Subject) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.objects, subject)
}

// ForgetGone drops an object that the cache says has gone, unless it was made anew since.
func (w *MutationCache) ForgetGone(subject Subject, gone client.Object) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if written := w.objects[subject]; written != nil && written.GetUID() == gone.GetUID() {
		delete(w.objects, subject)
	}
}

// Unseen are the objects of a kind that were written and that the cache does not have: it is late, or an object was made anew and only the
// end of the one before has arrived.
func (w *MutationCache) Unseen(kind string, isCached func(name string) bool) []client.Object {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var unseen []client.Object
	for subject, written := range w.objects {
		if subject.Kind == kind && !isCached(subject.Name) {
			unseen = append(unseen, written.DeepCopy())
		}
	}
	return unseen
}

// Newer returns the newer one of the cached object, nil if the cache has none, and the remembered one.
func (w *MutationCache) Newer(subject Subject, cached *unstructured.Unstructured) *unstructured.Unstructured {
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

// remembers reports whether there is a write of this object that the cache may not show yet.
func (w *MutationCache) remembers(subject Subject) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.objects[subject] != nil
}

// Pending reports whether the cache has still to show something that was written.
func (w *MutationCache) Pending() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.objects) > 0
}

// ForgetStale forgets everything if the cache has not shown all of it for StaleAfter. A watch that was interrupted can miss a
// deletion, so nothing is believed for long. Call it at the beginning of each reconcile.
func (w *MutationCache) ForgetStale(now time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch {
	case len(w.objects) == 0:
		w.pending = time.Time{}
	case w.pending.IsZero():
		w.pending = now
	case now.Sub(w.pending) >= StaleAfter:
		clear(w.objects)
		w.pending = time.Time{}
	}
}

// older compares resource versions, which Kubernetes defines as growing integers (KEP-5504).
func older(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}
