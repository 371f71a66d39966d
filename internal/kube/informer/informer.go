// Package informer caches a few fields of selected objects of a kind, in addition to the manager's cache. A normal cache would contain every object
// of the kind, complete. In a large cluster, that would take most of the operator's memory.
package informer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Objects stores a value for each selected object of a kind. It is a source of events, and the store of its reflector.
type Objects[T comparable] struct {
	// Queue gets the request after a relevant change, delayed by Settle. Start sets Queue.
	Queue workqueue.TypedRateLimitingInterface[reconcile.Request]

	api     client.WithWatch
	kind    client.Object
	newList func() client.ObjectList
	read    func(client.Object) (words T, matters bool)
	request reconcile.Request

	started, filled atomic.Bool

	mutex  sync.Mutex
	byName map[string]T
}

// Settle is the time for which Objects collects changes, because many changes come at once.
const Settle = 5 * time.Second

// New returns an empty store. Argument "read" is a function that returns the value to store for an object, and whether Objects must store this value.
func New[T comparable](
	api client.WithWatch, kind client.Object, newList func() client.ObjectList, request reconcile.Request, read func(client.Object) (T, bool),
) *Objects[T] {
	return &Objects[T]{api: api, kind: kind, newList: newList, read: read, request: request, byName: map[string]T{}}
}

// Start watches the objects until ctx ends.
func (f *Objects[T]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	f.Queue = queue
	f.started.Store(true)
	from := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list := f.newList()
			if err := f.api.List(ctx, list, &client.ListOptions{Raw: &raw}); err != nil {
				return nil, fmt.Errorf("list %T: %w", f.kind, err)
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return f.api.Watch(ctx, f.newList(), &client.ListOptions{Raw: &raw})
		},
	}
	reflector := toolscache.NewReflectorWithOptions(from, f.kind, f, toolscache.ReflectorOptions{Name: fmt.Sprintf("%T", f.kind)})
	go reflector.RunWithContext(ctx)
	return nil
}

// WaitForSync waits for the first complete list.
func (f *Objects[T]) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), f.filled.Load) {
		return fmt.Errorf("%T could not be listed: %w", f.kind, context.Cause(ctx))
	}
	return nil
}

// WaitForCacheSync does the same as WaitForSync, for a health check. It returns true before Start, and false if ctx ends before the first complete
// list.
func (f *Objects[T]) WaitForCacheSync(ctx context.Context) bool {
	return !f.started.Load() || f.WaitForSync(ctx) == nil
}

// Has reports whether the store has an object of this name.
func (f *Objects[T]) Has(name string) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	_, found := f.byName[name]
	return found
}

// Get returns the value of the object of this name.
func (f *Objects[T]) Get(name string) (value T, found bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	value, found = f.byName[name]
	return value, found
}

// Each calls visit with every stored value, in no particular order.
func (f *Objects[T]) Each(visit func(T)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, words := range f.byName {
		visit(words)
	}
}

// sighting has the parts of an object that Objects needs. Its metadata has only the object's name. Field "words" is the value that the read function
// returned. Field "matters" is true if Objects must store this value. The reflector of client-go passes each sighting to the store.
type sighting[T comparable] struct {
	metav1.ObjectMeta
	words   T
	matters bool
}

// Transformer reduces each object of a list as it arrives, so that the whole list is never in memory.
func (f *Objects[T]) Transformer() toolscache.TransformFunc {
	return func(object any) (any, error) { return f.extract(object), nil }
}

func (f *Objects[T]) extract(object any) *sighting[T] {
	switch is := object.(type) {
	case *sighting[T]:
		return is
	case client.Object:
		words, matters := f.read(is)
		return &sighting[T]{metav1.ObjectMeta{Name: is.GetName()}, words, matters}
	default:
		return &sighting[T]{}
	}
}

// Add stores an object if the read function of New selects the object.
func (f *Objects[T]) Add(object any) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.store(f.extract(object))
	return nil
}

// Update does the same as Add.
func (f *Objects[T]) Update(object any) error { return f.Add(object) }

// Delete drops an object.
func (f *Objects[T]) Delete(object any) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.evict(f.extract(object).Name)
	return nil
}

// Replace stores these objects, and drops all other objects.
func (f *Objects[T]) Replace(objects []any, _ string) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	listed := make(map[string]bool, len(f.byName))
	for _, object := range objects {
		seen := f.extract(object)
		listed[seen.Name] = seen.matters
		f.store(seen)
	}
	for name := range f.byName {
		if !listed[name] {
			f.evict(name)
		}
	}
	f.filled.Store(true)
	return nil
}

// Resync does nothing: no periodic resync is wanted.
func (f *Objects[T]) Resync() error { return nil }

func (f *Objects[T]) store(seen *sighting[T]) {
	if !seen.matters {
		f.evict(seen.Name)
		return
	}
	if before, found := f.byName[seen.Name]; !found || before != seen.words {
		f.byName[seen.Name] = seen.words
		f.wake()
	}
}

func (f *Objects[T]) evict(name string) {
	if _, found := f.byName[name]; found {
		delete(f.byName, name)
		f.wake()
	}
}

// wake queues the request after Settle, so that one reconcile handles many changes.
func (f *Objects[T]) wake() { f.Queue.AddAfter(f.request, Settle) }
