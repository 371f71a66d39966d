// Package fair shares the work of a controller between namespaces: they take turns, and what fails in one of them is tried again at growing
// intervals. Why: docs/decisions/0029.
package fair

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// turns is the order in which objects are worked on: the namespaces take turns, so that one with thousands of them holds up
// nobody else. It keeps the items of a workqueue, whose lock is held in Push, Len and Pop.
type turns struct {
	mutex sync.Mutex
	// waiting are the items of each namespace, in order; order are the namespaces that have some.
	waiting map[string][]reconcile.Request
	order   []string
	// busy is how many items of each namespace are worked on.
	busy map[string]int
	most int
	// ready is how many items may be worked on at once.
	ready int
}

func newTurns(most int) *turns {
	return &turns{waiting: map[string][]reconcile.Request{}, busy: map[string]int{}, most: most}
}

// Touch does nothing: an item keeps its place.
func (t *turns) Touch(reconcile.Request) {}

// Push adds an item.
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

// Len is the number of items that may be worked on at once.
func (t *turns) Len() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.ready
}

// Pop takes an item of the namespace whose turn it is. There is one if Len is not 0.
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

// done says that an item is not worked on any more.
func (t *turns) done(item reconcile.Request) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.change(item.Namespace, func() {
		if t.busy[item.Namespace]--; t.busy[item.Namespace] <= 0 {
			delete(t.busy, item.Namespace)
		}
	})
}

// change counts anew what a change of a namespace makes ready.
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

// Done makes room for the next item of the namespace. The worker that calls it is the one that takes that.
func (q *fairQueue) Done(item reconcile.Request) {
	q.turns.done(item)
	q.Typed.Done(item)
}

// Queue makes the queue of a controller with some workers. At most three quarters of them work for one namespace at once.
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
