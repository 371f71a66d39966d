package informer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// counted is a queue that counts what is to be done later.
type counted struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added int
}

func (c *counted) AddAfter(_ reconcile.Request, after time.Duration) {
	if after == Settle {
		c.added++
	}
}

func node(name, provider string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: provider}}
}

// providers holds the providerIDs of nodes; a node without one does not matter.
func providers(api client.WithWatch) (*Objects[string], *counted) {
	queue := &counted{}
	made := New(api, &corev1.Node{}, func() client.ObjectList { return &corev1.NodeList{} }, reconcile.Request{}, func(object client.Object) (string, bool) {
		one, ok := object.(*corev1.Node)
		if !ok {
			return "", false
		}
		return one.Spec.ProviderID, one.Spec.ProviderID != ""
	})
	made.Queue = queue
	return made, queue
}

func kept(objects *Objects[string]) []string {
	var all []string
	objects.Each(func(one string) { all = append(all, one) })
	slices.Sort(all)
	return all
}

func TestOnlyWordsThatMatterAreKeptAndWake(t *testing.T) {
	objects, queue := providers(nil)
	for i, step := range []struct {
		do   func() error
		want []string
		woke int
	}{
		{func() error { return objects.Add(node("a", "1")) }, []string{"1"}, 1},
		{func() error { return objects.Update(node("a", "1")) }, []string{"1"}, 0},
		{func() error { return objects.Add(node("b", "")) }, []string{"1"}, 0},
		{func() error { return objects.Update(node("a", "2")) }, []string{"2"}, 1},
		{func() error { return objects.Update(node("a", "")) }, nil, 1},
		{func() error { return objects.Delete(node("a", "2")) }, nil, 0},
		{func() error { return objects.Replace([]any{node("c", "3"), node("d", "")}, "7") }, []string{"3"}, 1},
		{func() error { return objects.Replace([]any{node("d", "4")}, "8") }, []string{"4"}, 2},
		{func() error { return objects.Delete("tombstone") }, []string{"4"}, 0},
		{objects.Resync, []string{"4"}, 0},
	} {
		queue.added = 0
		err := step.do()
		if diff := cmp.Diff(step.want, kept(objects)); diff != "" || err != nil || queue.added != step.woke {
			t.Errorf("step %d: error %v, woken %d times, want %d (-want +got):\n%s", i, err, queue.added, step.woke, diff)
		}
	}
}

// nodes can't be listed until they may be.
type nodes struct {
	client.WithWatch
	allowed chan struct{}
}

func (n *nodes) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	select {
	case <-n.allowed:
	default:
		return errors.New("forbidden")
	}
	into := list.(*corev1.NodeList)
	into.Items, into.ResourceVersion = []corev1.Node{*node("a", "1"), *node("b", "")}, "1"
	return nil
}

func (n *nodes) Watch(_ context.Context, _ client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	if options[0].(*client.ListOptions).Raw.SendInitialEvents != nil {
		return nil, errors.New("this API server does not stream lists")
	}
	return watch.NewFake(), nil
}

func TestObjectsAreKnownOnceTheyAreListed(t *testing.T) {
	api := &nodes{allowed: make(chan struct{})}
	objects, queue := providers(api)
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if !objects.WaitForCacheSync(soon) {
		t.Error("an operator that does not lead is not ready")
	}
	if err := objects.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if objects.WaitForCacheSync(soon) || objects.WaitForSync(soon) == nil {
		t.Error("they are known although they can't be listed")
	}
	close(api.allowed)
	if err := objects.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1"}, kept(objects)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
