package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/kube/informer"
)

const (
	testDriver = "disk.csi.example.com"
	testTaint  = testDriver + "/agent-not-ready"
)

// patches records which nodes are patched, and answers with err, or with nil for nodes that accepts has.
type patches struct {
	client.Client
	nodes   []string
	err     error
	accepts []string
}

func (p *patches) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	p.nodes = append(p.nodes, object.GetName())
	if slices.Contains(p.accepts, object.GetName()) {
		return nil
	}
	return p.err
}

// sent returns the patched nodes, sorted, and forgets them.
func (p *patches) sent() []string {
	sent := slices.Sorted(slices.Values(p.nodes))
	p.nodes = nil
	return sent
}

func taintedNode(name string, before int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for range before {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoSchedule})
	}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: testTaint, Effect: corev1.TaintEffectNoExecute})
	return node
}

func with(name, driver string) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver}}},
	}
}

func newTaints(now *time.Time, api *patches) *Taints {
	taints := &Taints{
		Client: api, Key: testTaint, Now: func() time.Time { return *now },
		Tainted: informer.TaintedNodes(nil, testTaint, reconcile.Request{}), Registered: informer.CSINodes(nil, testDriver, reconcile.Request{}),
	}
	taints.Tainted.Queue, taints.Registered.Queue = &silent{}, &silent{}
	return taints
}

func TestTheTaintGoesOnceFromEachNodeWithTheDriver(t *testing.T) {
	now, api := time.Unix(10_000, 0), &patches{}
	taints := newTaints(&now, api)
	for i, step := range []struct {
		do    func() error
		want  []string
		again time.Duration
	}{
		{func() error { return nil }, nil, 0},
		{func() error { return taints.Tainted.Add(taintedNode("a", 0)) }, nil, 0},
		{func() error { return taints.Registered.Add(with("a", "other.csi.example.com")) }, nil, 0},
		{func() error { return taints.Registered.Add(with("a", testDriver)) }, []string{"a"}, 0},
		// The watch has not shown the result yet.
		{func() error { now = now.Add(20 * time.Second); return nil }, nil, 40 * time.Second},
		{func() error { return taints.Registered.Add(with("b", testDriver)) }, nil, 40 * time.Second},
		{func() error { return taints.Tainted.Add(taintedNode("b", 1)) }, []string{"b"}, 40 * time.Second},
		{func() error { return taints.Tainted.Update(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}) }, nil, time.Minute},
		// Another taint has appeared before ours, so the patch differs.
		{func() error { return taints.Tainted.Update(taintedNode("b", 2)) }, []string{"b"}, 0},
		{func() error { return taints.Tainted.Delete(taintedNode("b", 2)) }, nil, 0},
		// The node has a taint again.
		{func() error { return taints.Tainted.Add(taintedNode("b", 2)) }, []string{"b"}, 0},
		{func() error { now = now.Add(time.Minute); return nil }, []string{"b"}, 0},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		again, err := taints.Remove(t.Context())
		if diff := cmp.Diff(step.want, api.sent()); diff != "" || err != nil || again != step.again {
			t.Errorf("step %d: %v, again after %s, want %s; -want +got:\n%s", i, err, again, step.again, diff)
		}
	}
}

func TestARefusedRemovalIsRepeated(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, test := range map[string]struct {
		err    error
		fails  bool
		again  time.Duration
		repeat []string
	}{
		"the node is gone":       {apierrors.NewNotFound(nodes, "a"), false, 0, nil},
		"the taints have moved":  {apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "a", nil), false, time.Minute, nil},
		"a policy refuses it":    {apierrors.NewForbidden(nodes, "a", errors.New("no")), true, 0, []string{"a"}},
		"the API server is down": {errors.New("connection refused"), true, 0, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			now, api := time.Unix(10_000, 0), &patches{err: test.err}
			taints := newTaints(&now, api)
			if err := errors.Join(taints.Tainted.Add(taintedNode("a", 0)), taints.Registered.Add(with("a", testDriver))); err != nil {
				t.Fatal(err)
			}
			again, err := taints.Remove(t.Context())
			if (err != nil) != test.fails || again != test.again {
				t.Errorf("%v, again after %s, want %s", err, again, test.again)
			}
			api.err, api.nodes = nil, nil
			if _, err := taints.Remove(t.Context()); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(test.repeat, api.sent()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestARefusedNodeDoesNotHoldTheNextNodes(t *testing.T) {
	now, api := time.Unix(10_000, 0), &patches{err: apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "a", errors.New("no"))}
	taints := newTaints(&now, api)
	var names []string
	for i := range 2 * mostRefused {
		names = append(names, fmt.Sprintf("n%02d", i))
		if err := errors.Join(taints.Tainted.Add(taintedNode(names[i], 0)), taints.Registered.Add(with(names[i], testDriver))); err != nil {
			t.Fatal(err)
		}
	}
	api.accepts = []string{"n01", "n02"}
	// Nodes without a turn come first, and then the oldest refusals.
	again := []string{"n00", "n03"}
	for i, want := range [][]string{names[:mostRefused+2], append(again, names[mostRefused+2:]...), append(again, names[4:mostRefused+2]...)} {
		_, err := taints.Remove(t.Context())
		if diff := cmp.Diff(want, api.sent()); diff != "" || err == nil || !strings.Contains(err.Error(), "n00") {
			t.Errorf("call %d: %v; patched nodes, -want +got:\n%s", i, err, diff)
		}
	}
	api.err = nil
	if _, err := taints.Remove(t.Context()); err != nil {
		t.Errorf("no node refuses its patch any more: %v", err)
	}
}

// The kubelet does not change the owner of a CSINode. Kubernetes' garbage collector deletes the CSINode of a Node that is gone, but takes a while.
func TestTheCSINodeOfAnEarlierNodeDoesNotCount(t *testing.T) {
	now, api := time.Unix(10_000, 0), &patches{}
	taints := newTaints(&now, api)
	node, registration := taintedNode("a", 0), with("a", testDriver)
	node.UID = "new"
	registration.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "a", UID: "old"}}
	for _, step := range []struct {
		owner types.UID
		want  []string
	}{{"old", nil}, {"new", []string{"a"}}} {
		registration.OwnerReferences[0].UID = step.owner
		if err := errors.Join(taints.Tainted.Update(node), taints.Registered.Update(registration)); err != nil {
			t.Fatal(err)
		}
		if _, err := taints.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(step.want, api.sent()); diff != "" {
			t.Errorf("a CSINode of the %s Node: -want +got:\n%s", step.owner, diff)
		}
	}
}

func TestADriverWithoutTheTaintNeedsNoTaints(t *testing.T) {
	for _, taints := range []*Taints{nil, {}} {
		if again, err := taints.Remove(t.Context()); again != 0 || err != nil {
			t.Errorf("%s, %v", again, err)
		}
	}
}
