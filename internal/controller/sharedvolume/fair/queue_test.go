package fair

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func request(namespace string, number int) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: fmt.Sprint(number)}}
}

func TestNamespacesTakeTurns(t *testing.T) {
	order := newTurns(100)
	for i := range 10000 {
		order.Push(request("hostile", i))
	}
	order.Push(request("other", 0))
	order.Push(request("other", 1))
	var got []string
	for range 6 {
		item := order.Pop()
		got = append(got, item.Namespace+"/"+item.Name)
	}
	if want := []string{"hostile/0", "other/0", "hostile/1", "other/1", "hostile/2", "hostile/3"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}

// What takes long for one namespace leaves workers to the others, and none is lost when it is done.
func TestANamespaceNeverHasAllWorkers(t *testing.T) {
	queue := Queue(20)("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	const count = 100
	for i := range count {
		queue.Add(request("hostile", i))
	}
	var held []reconcile.Request
	for range 15 {
		item, _ := queue.Get()
		held = append(held, item)
	}
	if queue.Len() != 0 {
		t.Fatalf("%d more are ready, although the namespace has its share of workers", queue.Len())
	}
	queue.Add(request("other", 0))
	if item, _ := queue.Get(); item.Namespace != "other" {
		t.Errorf("the next one is %v", item)
	}
	// Something that changes meanwhile is worked on once more.
	queue.Add(held[0])
	done := 0
	for len(held) > 0 {
		queue.Done(held[0])
		held = held[1:]
		done++
		for queue.Len() > 0 {
			item, _ := queue.Get()
			held = append(held, item)
		}
	}
	if done != count+1 {
		t.Errorf("%d were worked on, want %d", done, count+1)
	}
}

func TestAQueueThatIsShutDownLetsItsWorkersGo(*testing.T) {
	queue := Queue(20)("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			item, over := queue.Get()
			if over {
				return
			}
			queue.Done(item)
		}
	}()
	for i := range 10 {
		queue.AddAfter(request("ns", i), time.Duration(i))
	}
	queue.ShutDown()
	<-ended
}
