// Package fair divides a controller's work among namespaces. Namespaces take turns, and the controller retries failing objects at growing intervals.
// The reasons are in docs/decisions/0029.
package fair

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// turns orders the items of a workqueue so that namespaces take turns. A namespace with thousands of objects does not delay the objects of other
// namespaces. The workqueue calls Push, Len and Pop under its lock.
type turns struct {
	mutex sync.Mutex
	// waiting has the items of each namespace, in order. order has the namespaces that have items.
	waiting map[string][]reconcile.Request
	order   []string
	// busy counts, for each namespace, the items that workers process. most is the maximum number of busy items for one namespace.
	busy map[string]int
	most int
	// ready counts the items that Pop may return.
	ready int
}

func newTurns(most int) *turns {
	return &turns{waiting: map[string][]reconcile.Request{}, busy: map[string]int{}, most: most}
}

// Touch does nothing, so an item that is added again keeps its place.
func (t *turns) Touch(reconcile.Request) {}

// Push appends an item to its namespace's queue.
func (t *turns) Push(item reconcile.Request) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.change(item.Namespace, func() {
		if len(t.waiting[item.Namespace]) == 0 {
			t.order = append(t.order, item.Namespace)
		}
		t.waiting[item.Namespace] = append(t.waiting[item.Namespace], item)
	})
}

// Len returns the number of items that Pop may return.
func (t *turns) Len() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.ready
}

// Pop removes and returns an item of the namespace whose turn it is. The workqueue calls Pop only if Len is not 0.
func (t *turns) Pop() reconcile.Request {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	next := slices.IndexFunc(t.order, func(namespace string) bool { return t.busy[namespace] < t.most })
	if next < 0 {
		return reconcile.Request{}
	}
	namespace := t.order[next]
	item := t.waiting[namespace][0]
	t.change(namespace, func() {
		if next == 0 {
			t.order = t.order[1:]
		} else {
			t.order = slices.Delete(t.order, next, next+1)
		}
		if t.waiting[namespace] = t.waiting[namespace][1:]; len(t.waiting[namespace]) > 0 {
			t.order = append(t.order, namespace)
		} else {
			delete(t.waiting, namespace)
		}
		t.busy[namespace]++
	})
	return item
}

// done frees a slot of the item's namespace.
func (t *turns) done(item reconcile.Request) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.change(item.Namespace, func() {
		if t.busy[item.Namespace]--; t.busy[item.Namespace] <= 0 {
			delete(t.busy, item.Namespace)
		}
	})
}

// change calls function "how", which changes the items of one namespace, and then updates the number of ready items.
func (t *turns) change(namespace string, how func()) {
	ready := func() int { return min(len(t.waiting[namespace]), t.most-t.busy[namespace]) }
	t.ready -= ready()
	how()
	t.ready += ready()
}

// fairQueue is a workqueue in which namespaces take turns.
type fairQueue struct {
	*workqueue.Typed[reconcile.Request]
	turns *turns
}

// Done frees a slot of the item's namespace. It need not wake a worker, because the calling worker takes the next item.
func (q *fairQueue) Done(item reconcile.Request) {
	q.turns.done(item)
	q.Typed.Done(item)
}

// Queue returns a constructor for the queue of a controller. The items of one namespace occupy at most three quarters of the workers.
func Queue(workers int) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		order := newTurns(workers - workers/4)
		inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: order})
		delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
			Name: name, Queue: &fairQueue{Typed: inner, turns: order},
		})
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
			Name: name, DelayingQueue: delaying,
		})
	}
}
