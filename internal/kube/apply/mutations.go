package apply

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StaleAfter is how long the operator waits for the cache to show a write.
const StaleAfter = 30 * time.Second

// MutationCache stores our latest writes until the cache shows them. Without it, a reconcile with a lagging cache would repeat every write.
type MutationCache struct {
	mutex   sync.Mutex
	objects map[Subject]*unstructured.Unstructured
	// pending is the time at which EvictStale first found a write that the cache does not show. It is zero if the cache shows all writes.
	pending time.Time
	// dropped has the fields of our latest writes that the API server did not store. Field "now" is the time of the last call of EvictStale.
	dropped map[Subject]dropped
	now     time.Time
}

// NewMutationCache returns an empty cache.
func NewMutationCache() *MutationCache {
	return &MutationCache{objects: map[Subject]*unstructured.Unstructured{}, dropped: map[Subject]dropped{}}
}

// Remember stores the API server's answer to a write.
func (w *MutationCache) Remember(object *unstructured.Unstructured) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.objects[SubjectOf(object)] = object
}

// RememberAs stores the API server's answer to a write, and returns the answer as a typed object.
func RememberAs[T any](w *MutationCache, answer *unstructured.Unstructured) (*T, error) {
	w.Remember(answer)
	return typed[T](answer)
}

// Evict drops our write of an object. Call it after a deletion, because the cache will not show the object again.
func (w *MutationCache) Evict(subject Subject) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.objects, subject)
}

// EvictDeleted drops our write of an object when the cache confirms the deletion of the object. If we have recreated the object since then, the
// remembered object has another UID, and EvictDeleted keeps it.
func (w *MutationCache) EvictDeleted(subject Subject, gone client.Object) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if written := w.objects[subject]; written != nil && written.GetUID() == gone.GetUID() {
		delete(w.objects, subject)
	}
}

// Unseen returns the objects of a kind that we wrote and that the cache lacks. The cache may lag. It may also show the deletion of an object that we
// have recreated, but not the new object.
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

// Newer returns the cached or the remembered object, whichever is newer. The cached object can be nil.
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

// remembers reports whether the latest write of an object is possibly not in the cache yet.
func (w *MutationCache) remembers(subject Subject) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.objects[subject] != nil
}

// Pending reports whether the cache lacks a write of ours.
func (w *MutationCache) Pending() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.objects) > 0
}

// EvictStale drops all remembered objects if the cache has lagged for StaleAfter, because a cache with an interrupted watch can miss a deletion. It
// also drops the memory of dropped fields after droppedFor. Call EvictStale at the beginning of each reconcile.
func (w *MutationCache) EvictStale(now time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.now = now
	maps.DeleteFunc(w.dropped, func(_ Subject, one dropped) bool { return now.Sub(one.since) >= droppedFor })
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

// older reports whether object a has a lower resource version than object b. Kubernetes defines resource versions as growing integers (KEP-5504).
func older(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}
