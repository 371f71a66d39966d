package apply

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// gateless is an API server without a feature gate: it drops one field of each apply, and makes a new version all the same.
type gateless struct {
	*canned.Cluster
	field   string
	version int
}

func (c *gateless) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if err := c.Cluster.Apply(ctx, object, options...); err != nil {
		return err
	}
	sent, ok := object.(interface{ UnstructuredContent() map[string]any })
	if !ok {
		return fmt.Errorf("the applier sent %T", object)
	}
	answer := sent.UnstructuredContent()
	if spec, ok := answer["spec"].(map[string]any); ok {
		delete(spec, c.field)
	}
	c.version++
	kept := &unstructured.Unstructured{Object: answer}
	kept.SetResourceVersion(fmt.Sprint(c.version))
	kept.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "us", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1"}})
	c.Objects = []client.Object{kept.DeepCopy()}
	return nil
}

func TestAFieldThatTheAPIServerDropsIsNotWrittenAgainAndAgain(t *testing.T) {
	cluster := &gateless{Cluster: canned.New(scheme.Scheme), field: "preventPodSchedulingIfMissing"}
	a := &Applier{
		Client: cluster, Live: cluster, FieldManager: "us", Labels: client.MatchingLabels{"owner": "us"}, Mutations: NewMutationCache(), Settled: Settled{},
	}
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	yes, no := true, false
	rendered := func(attach bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"owner": "us"}},
			Spec:       storagev1.CSIDriverSpec{AttachRequired: &attach, PreventPodSchedulingIfMissing: &yes},
		}
	}
	field := "spec.preventPodSchedulingIfMissing"
	for _, step := range []struct {
		name    string
		happen  func()
		attach  bool
		want    Action
		dropped []string
	}{
		{"installed", func() {}, true, Created, []string{field}},
		{"nothing happened", func() {}, true, Unchanged, []string{field}},
		{"nothing happened for a while", func() { now = now.Add(droppedFor - time.Second) }, true, Unchanged, []string{field}},
		{"an hour has passed", func() { now = now.Add(time.Second) }, true, Configured, []string{field}},
		{"nothing happened since", func() {}, true, Unchanged, []string{field}},
		{"another user changed another field", func() {
			live := rendered(true)
			if err := cluster.Get(t.Context(), client.ObjectKey{Name: "a"}, live); err != nil {
				t.Fatal(err)
			}
			live.Spec.AttachRequired, live.ResourceVersion = &no, "90"
			cluster.Objects, cluster.version = []client.Object{live}, 90
		}, true, Configured, []string{field}},
		{"rendered otherwise", func() {}, false, Configured, []string{field}},
		{"nothing happened since that", func() {}, false, Unchanged, []string{field}},
		{"the API server got the gate, and sets the default", func() {
			live := rendered(false)
			if err := cluster.Get(t.Context(), client.ObjectKey{Name: "a"}, live); err != nil {
				t.Fatal(err)
			}
			live.Spec.PreventPodSchedulingIfMissing = &no
			cluster.Objects, cluster.field = []client.Object{live}, ""
		}, false, Configured, nil},
		{"nothing happened at last", func() {}, false, Unchanged, nil},
	} {
		step.happen()
		a.Mutations.EvictStale(now)
		changes := a.Set(t.Context(), []client.Object{rendered(step.attach)})
		if changes[0].Action != step.want || changes[0].Err != nil {
			t.Errorf("%s: %s is %s, want %s, error %v", step.name, changes[0].Subject, changes[0].Action, step.want, changes[0].Err)
		}
		if diff := cmp.Diff(step.dropped, changes[0].Dropped); diff != "" {
			t.Errorf("%s: dropped -want +got:\n%s", step.name, diff)
		}
	}
	if len(cluster.Writes) != 5 {
		t.Errorf("writes %q", cluster.Writes)
	}
}
