package nodes

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// The same memory and the same facts make the same plan, however often, and neither is changed.
func TestAStepIsPure(t *testing.T) {
	o := operate("a", "b", "c", "d")
	began := o.now.Add(-time.Minute)
	before := state{proven: true, replaced: map[string]replacement{
		"a": {pod: "gone", at: began, ready: map[types.UID]bool{"web": true}},
		"b": {pod: "gone", at: began},
		"d": {pod: "gone", at: began},
		"e": {pod: "gone", at: began},
	}}
	seen := facts{
		Rules: Rules{Desired: 4, Policy: driver.IdleFirst}, now: o.now,
		pods:    []corev1.Pod{*o.pod("a", "2", "new", true), *o.pod("b", "2", "new", true), *o.pod("c", "1", "old", true)},
		healths: map[string]health{"e": departed}, users: map[string][]string{"a": {"shop/web"}, "c": {"shop/x"}},
	}
	web := plugin("a", "default", false)
	web.Namespace, web.Name, web.UID = "shop", "web", "web"
	seen.outdated, seen.looked = map[string]*corev1.Pod{"c": &seen.pods[2]}, map[string][]corev1.Pod{"a": {web}}
	var plans []Plan
	var left [][]string
	for range 2 {
		after, plan := step(before, seen)
		plans, left = append(plans, plan), append(left, slices.Sorted(maps.Keys(after.replaced)))
		if after.pace != time.Minute {
			t.Errorf("a node was without a pod for %s", after.pace)
		}
	}
	if diff := cmp.Diff(plans[0], plans[1]); diff != "" {
		t.Errorf("the second time (-first +second):\n%s", diff)
	}
	// The users of a are unready, b is as before, d has no pod yet, and e left.
	if want := [][]string{{"a", "d"}, {"a", "d"}}; !cmp.Equal(want, left) {
		t.Errorf("it remembers %v", left)
	}
	if len(before.replaced) != 4 || !before.replaced["a"].served.IsZero() || plans[0].Disturbed[0] != "shop/web on a" || len(plans[0].Next()) > 0 {
		t.Errorf("it was given %+v, and plans %+v", before, plans[0])
	}
}

// migrating is planOf for pods of a predecessor. Ours are outdated.
func migrating(text string) Plan {
	plan := planOf(driver.Unreadable, strings.ReplaceAll(text, "ours", "old,ours"))
	plan.Migrates = true
	for _, each := range strings.Fields(text) {
		if name, words, _ := strings.Cut(each, ":"); !strings.HasPrefix(words, "ours") {
			node := plan.Nodes[name]
			node.Old, node.Outdated = node.Outdated, nil
		}
	}
	return plan
}

// The mounts of a node in use would hang after a migration, also where the old pod is not ready.
func TestAMigrationLeavesNodesInUseToTheLast(t *testing.T) {
	plan := migrating("a:old,used b:old,used,broken c:ours d:old e:old,broken f:ours,broken")
	if got := strings.Join(plan.Waiting(), " "); got != "e d b a c f" {
		t.Errorf("the order is %s", got)
	}
	for text, want := range map[string]string{"a:old,used,broken": "", "a:old,used b:ours": "b"} {
		if got := strings.Join(migrating(text).Next(), " "); got != want {
			t.Errorf("%s: next %q, want %q", text, got, want)
		}
	}
}

func TestAMigrationLooksOnceMoreBeforeItDeletes(t *testing.T) {
	for accepted, want := range map[bool]int{false: 0, true: 1} {
		o := operate("a")
		o.use("b")
		o.IsOld = func(*corev1.Pod) bool { return true }
		plan, err := o.Survey(t.Context(), []corev1.Pod{plugin("a", "old", true)}, nil, 1, Accepted{Remount: accepted})
		if err != nil || len(plan.Next()) != 1 {
			t.Fatalf("next %v: %v", plan.Next(), err)
		}
		o.use("a")
		if _, err := o.Replace(t.Context(), plan); err != nil || len(o.cluster.Writes) != want {
			t.Errorf("accepted is %t: wrote %v: %v", accepted, o.cluster.Writes, err)
		}
	}
}

// A migration reads node pods seldom, and does not wait with a question about a node.
func TestAMigrationAsksAtOnceWhetherANodeIsDown(t *testing.T) {
	o := operate("a")
	o.IsOld = func(*corev1.Pod) bool { return true }
	for _, state := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionFalse} {
		for _, object := range o.cluster.Objects {
			if node, isNode := object.(*corev1.Node); isNode {
				node.Status.Conditions[0].Status = state
			}
		}
		plan, err := o.Survey(t.Context(), []corev1.Pod{*o.pod("a", "1", "old", false)}, nil, 1, Accepted{})
		if err != nil || plan.Nodes["a"].Down != (state == corev1.ConditionFalse) {
			t.Errorf("a node whose condition Ready is %s: %+v, %v", state, plan.Nodes["a"], err)
		}
	}
}
