package apply

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// An object is compared again when it was changed in the cluster, when it is rendered otherwise, and after every write: no version but that which
// was compared says that nothing is to be done.
func TestWhatIsSettledIsComparedAgainAfterEveryChange(t *testing.T) {
	rendered := func(value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "a", Labels: map[string]string{"owner": "us"}}, Data: map[string]string{"key": value},
		}
	}
	cluster := canned.New(scheme.Scheme)
	a := &Applier{
		Client: cluster, Live: cluster, FieldManager: "us", Labels: client.MatchingLabels{"owner": "us"}, Mutations: NewMutationCache(), Settled: Settled{},
	}
	subject := Subject{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), ObjectKey: client.ObjectKey{Namespace: "here", Name: "a"}}
	// cached is what the cache has: what was rendered, applied by us, but for what somebody has changed.
	cached := func(version, rendering, value string) {
		desired, err := a.desired(rendered(rendering))
		if err != nil {
			t.Fatal(err)
		}
		live := rendered(value)
		live.ResourceVersion, live.Annotations = version, desired.GetAnnotations()
		live.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "us", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1"}}
		cluster.Objects = []client.Object{live}
	}
	remember := func(version string) {
		answer := &unstructured.Unstructured{}
		answer.SetGroupVersionKind(subject.GroupVersionKind)
		answer.SetNamespace("here")
		answer.SetName("a")
		answer.SetResourceVersion(version)
		a.Mutations.Remember(answer)
	}
	for _, step := range []struct {
		name   string
		happen func()
		render string
		want   Action
	}{
		{"as it is to be", func() { cached("5", "x", "x") }, "x", Unchanged},
		{"of the version that was compared", func() { cached("5", "x", "not looked at") }, "x", Unchanged},
		{"changed by somebody", func() { cached("6", "x", "theirs") }, "x", Configured},
		{"as it is to be again", func() { a.Mutations.Evict(subject); cached("7", "x", "x") }, "x", Unchanged},
		{"the cache is late: something else was written since", func() { remember("8") }, "x", Configured},
		{"as it is to be once more", func() { a.Mutations.Evict(subject); cached("8", "x", "x") }, "x", Unchanged},
		{"rendered otherwise", func() {}, "y", Configured},
		{"rendered as before, after the other was written", func() { a.Mutations.Evict(subject); cached("8", "y", "y") }, "x", Configured},
		{"gone", func() { a.Mutations.Evict(subject); cluster.Objects = nil }, "x", Created},
	} {
		step.happen()
		changes := a.Set(t.Context(), []client.Object{rendered(step.render)})
		if changes[0].Action != step.want || changes[0].Err != nil || changes[0].Subject != subject {
			t.Errorf("%s: %s is %s, want %s, error %v", step.name, changes[0].Subject, changes[0].Action, step.want, changes[0].Err)
		}
	}
}

// Reads of what is kept would be most of what a prune does.
func TestPruneReadsOnlyWhatIsNotKept(t *testing.T) {
	kept := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "kept"}}
	outdated := kept.DeepCopy()
	outdated.Name = "outdated"
	cluster := canned.New(scheme.Scheme)
	a := &Applier{Client: cluster, Mutations: NewMutationCache(), Inventory: []Subject{SubjectOf(kept), SubjectOf(outdated)}}
	if changes := a.Prune(t.Context(), []client.Object{kept}); len(changes) != 0 {
		t.Errorf("pruned: %v", changes)
	}
	if len(cluster.Reads) != 1 || cluster.Reads[0] != "get ConfigMap here/outdated" {
		t.Errorf("reads %q", cluster.Reads)
	}
}

// Without pods it does not matter whose the workload was.
func TestOnlyAWorkloadWithPodsIsReadBeforeItsCreation(t *testing.T) {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "node"}}
	for name, tc := range map[string]struct {
		hasPods func(Subject) bool
		want    int
	}{
		"unknown":      {nil, 1},
		"with pods":    {func(subject Subject) bool { return subject.Name == "node" }, 1},
		"without pods": {func(Subject) bool { return false }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, live := canned.New(scheme.Scheme), canned.New(scheme.Scheme)
			applier := &Applier{Client: cluster, Live: live, HasPods: tc.hasPods, FieldManager: "us", Mutations: NewMutationCache()}
			changes := applier.Set(t.Context(), []client.Object{set})
			if changes.Err() != nil || len(changes.With(Created)) != 1 || len(live.Reads) != tc.want {
				t.Errorf("read %v, %v", live.Reads, changes)
			}
		})
	}
}
