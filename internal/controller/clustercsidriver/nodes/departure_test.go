package nodes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// leave takes a node out of the cluster. Its pods stay until the garbage collector comes.
func (o *operated) leave(node string) {
	o.cluster.Objects = slices.DeleteFunc(o.cluster.Objects, func(object client.Object) bool {
		switch object.(type) {
		case *corev1.Node, *storagev1.CSINode:
			return object.GetName() == node
		default:
			return false
		}
	})
	o.in.DaemonSet.Status.DesiredNumberScheduled--
}

// collect deletes the pods of a node, as the garbage collector does.
func (o *operated) collect(node string) {
	o.cluster.Objects = slices.DeleteFunc(o.cluster.Objects, func(object client.Object) bool {
		pod, isPod := object.(*corev1.Pod)
		return isPod && pod.Spec.NodeName == node
	})
}

// join adds a node, perhaps under the name of one that left. The DaemonSet is about to make its pod.
func (o *operated) join(node string) {
	o.made++
	live := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(fmt.Sprint("node", o.made))}}
	live.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	registered := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
	registered.Spec.Drivers = []storagev1.CSINodeDriver{{Name: fleetDriver}}
	o.cluster.Objects = append(o.cluster.Objects, live, registered)
	o.in.DaemonSet.Status.DesiredNumberScheduled++
}

// A node in use may leave after its node pod was deleted and before the new one serves. Nothing will be ready there again.
func TestARolloutEndsWithoutANodeThatLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		departs func(o *operated)
		// after is what happens when the garbage collector has come.
		after func(o *operated)
	}{
		"at once":                          {func(o *operated) { o.leave("a"); o.collect("a") }, func(*operated) {}},
		"its pods stay for a while":        {func(o *operated) { o.leave("a"); o.replaced(false, "a") }, func(o *operated) { o.collect("a") }},
		"its old node pod stays":           {func(o *operated) { o.leave("a") }, func(o *operated) { o.collect("a") }},
		"another one gets its name":        {func(o *operated) { o.leave("a"); o.collect("a"); o.join("a"); o.replaced(true, "a") }, func(*operated) {}},
		"another one gets its name, later": {func(o *operated) { o.leave("a"); o.collect("a") }, func(o *operated) { o.join("a"); o.replaced(true, "a") }},
	} {
		t.Run(name, func(t *testing.T) {
			o := operate("a", "b", "c")
			o.replaced(true, "c")
			o.use("a")
			o.use("b")
			o.deletes(t, 0, "a")
			tc.departs(o)
			deleted, made := o.pass(t, startTime)
			if deleted == "" {
				deleted, made = o.pass(t, time.Minute)
			}
			if deleted != "b" {
				t.Fatalf("deleted %q: %s", deleted, made.Message)
			}
			o.replaced(true, "b")
			tc.after(o)
			for passes := 0; passes < 5 && !made.Ended; passes++ {
				made = o.deletes(t, time.Minute, "")
			}
			if !made.Ended {
				t.Errorf("it goes on: %s: %s", made.Reason, made.Message)
			}
		})
	}
}

// A node that gets a taint, or loses a label, after its node pod was deleted gets no pod any more.
func TestARolloutEndsWithoutANodeThatIsNotWanted(t *testing.T) {
	for name, prepare := range map[string]func(*operated){
		"the canary": func(*operated) {},
		"idle":       func(o *operated) { o.replaced(true, "d") },
		"in use":     func(o *operated) { o.use("a"); o.replaced(true, "c", "d") },
	} {
		t.Run(name, func(t *testing.T) {
			o := operate("a", "b", "c", "d")
			prepare(o)
			o.use("b")
			o.deletes(t, 0, "a")
			o.gone("a")
			// While no controller looks after the DaemonSet, its status is an old one.
			state := &o.in.DaemonSet.Status
			state.CurrentNumberScheduled = state.DesiredNumberScheduled
			o.deletes(t, 2*slowAfter, "")
			state.DesiredNumberScheduled--
			state.CurrentNumberScheduled--
			var made Progress
			for passes := 0; passes < 9 && !made.Ended; passes++ {
				var deleted string
				if deleted, made = o.pass(t, time.Minute); deleted != "" {
					o.replaced(true, strings.Fields(deleted)...)
				}
			}
			if !made.Ended {
				t.Errorf("it goes on: %s: %s", made.Reason, made.Message)
			}
		})
	}
}

// A node that gets a taint keeps its pod, which does not stand for the one that a wanted node lacks.
func TestPodsOfNodesThatAreNotWantedDoNotHideWhatIsMissing(t *testing.T) {
	o := operate("a", "b", "c", "d", "e")
	o.replaced(true, "e")
	o.gone("a")
	o.in.DaemonSet.Status.DesiredNumberScheduled, o.in.DaemonSet.Status.NumberMisscheduled = 4, 1
	if made := o.deletes(t, 0, ""); !strings.HasPrefix(made.Message, "1 of 5 nodes have the new node pod; 3 idle nodes wait") {
		t.Error(made.Message)
	}
}

// A node that left has no part in the numbers: neither is its pod missing, nor may another node do without one in its place.
func TestANodeThatLeftIsNotCounted(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	o := operate(names...)
	o.replaced(true, names[2:]...)
	o.replaced(false, "n02")
	o.leave("n02")
	o.now = o.now.Add(startTime)
	// The DaemonSet is about to make the pod of n03, so that one node of 19 is without.
	o.gone("n03")
	if made := o.deletes(t, 0, ""); made.Message != "16 of 19 nodes have the new node pod; 2 idle nodes wait" {
		t.Error(made.Message)
	}
}

func TestARolloutEndsWhenTheLastNodeLeaves(t *testing.T) {
	o := operate("a")
	o.deletes(t, 0, "a")
	o.leave("a")
	o.collect("a")
	if made := o.deletes(t, time.Minute, ""); !made.Ended {
		t.Errorf("it goes on: %s: %s", made.Reason, made.Message)
	}
}

// What a node had that left is neither to be replaced nor in the way.
func TestAMigrationLeavesOutNodesThatLeft(t *testing.T) {
	o := operate("a", "b")
	o.leave("a")
	o.IsOld = func(*corev1.Pod) bool { return true }
	plan, err := o.Survey(t.Context(), []corev1.Pod{plugin("a", "old", false), plugin("b", "old", true)}, nil, 1, Accepted{})
	waiting, down := plan.Waiting(), plan.Named(isDown)
	if err != nil || len(waiting) != 1 || len(down) > 0 || plan.Count() != 1 {
		t.Errorf("%v with an old pod, %v down, of %d: %v", waiting, down, plan.Count(), err)
	}
}

// A migration remembers no node: what the DaemonSet does not want is not missing.
func TestAMigrationLeavesOutNodesThatAreNotWanted(t *testing.T) {
	o := operate("a", "b", "c")
	o.gone("a")
	o.IsOld = func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "b" }
	for desired, stalled := range map[int]bool{3: true, 2: false} {
		plan, err := o.Survey(t.Context(), []corev1.Pod{plugin("b", "old", true), plugin("c", "new", true)}, nil, desired, Accepted{})
		if err != nil || plan.IsStalled() != stalled || len(plan.Next()) == 0 != stalled {
			t.Errorf("with %d nodes wanted it is stalled: %v, and %v follow: %v", desired, plan.IsStalled(), plan.Next(), err)
		}
	}
}

// churn is a cluster in which nodes come and go during a roll-out.
type churn struct {
	*operated
	random *rand.Rand
	left   []string
	// unwanted are the nodes on which the DaemonSet makes no pod.
	unwanted map[string]bool
	// pause is how long nothing looks after the cluster.
	pause time.Duration
}

// nodes are those that the cluster has, with their node pod, if any.
func (c *churn) nodes() map[string]*corev1.Pod {
	found := map[string]*corev1.Pod{}
	for _, object := range c.cluster.Objects {
		if _, isNode := object.(*corev1.Node); isNode {
			found[object.GetName()] = nil
		}
	}
	for _, object := range c.cluster.Objects {
		pod, isPod := object.(*corev1.Pod)
		if !isPod || pod.Labels["app"] == "" {
			continue
		}
		if _, there := found[pod.Spec.NodeName]; there {
			found[pod.Spec.NodeName] = pod
		}
	}
	return found
}

// happen lets half of what is to come: the DaemonSet makes pods, these get ready, and the garbage collector comes. Applications break.
func (c *churn) happen() {
	nodes := c.nodes()
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		pod := nodes[node]
		switch soon := c.random.IntN(2) == 0; {
		case !soon:
		case pod == nil && c.unwanted[node]:
		case pod == nil:
			c.cluster.Objects = append(c.cluster.Objects, c.pod(node, "2", "new", false))
		case pod.DeletionTimestamp != nil:
			c.gone(node)
		case !Serves(pod) && pod.Labels[templateLabel] == "2":
			c.replaced(true, node)
		}
	}
	for _, node := range c.left {
		if c.random.IntN(4) == 0 {
			c.collect(node)
		}
	}
	for _, object := range c.cluster.Objects {
		if pod, isPod := object.(*corev1.Pod); isPod && pod.Namespace == "shop" && c.random.IntN(10) == 0 {
			pod.Status.Conditions[0].Status, pod.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(c.now)
		}
	}
}

// surprise lets a node leave or join, the latter often under the name of one that left, or get or lose a taint.
func (c *churn) surprise() {
	nodes := c.nodes()
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		switch c.random.IntN(20) {
		case 0:
			c.leave(node)
			c.left = append(c.left, node)
		case 1:
			if c.unwanted[node] = !c.unwanted[node]; !c.unwanted[node] && nodes[node] == nil {
				c.replaced(false, node)
			}
		}
	}
	if len(c.left) > 0 && c.random.IntN(3) == 0 {
		node := c.left[c.random.IntN(len(c.left))]
		c.left = slices.DeleteFunc(c.left, func(name string) bool { return name == node })
		c.collect(node)
		delete(c.unwanted, node)
		c.join(node)
		c.replaced(false, node)
	}
}

// step passes once, and checks how many nodes are without a node pod that serves.
func (c *churn) step(t *testing.T) (bool, error) {
	state := &c.in.DaemonSet.Status
	*state = appsv1.DaemonSetStatus{ObservedGeneration: state.ObservedGeneration}
	for node, pod := range c.nodes() {
		switch {
		case !c.unwanted[node]:
			state.DesiredNumberScheduled++
			if pod != nil {
				state.CurrentNumberScheduled++
			}
		case pod != nil:
			state.NumberMisscheduled++
		}
		if pod != nil && pod.DeletionTimestamp == nil && pod.Labels[templateLabel] == "2" {
			state.UpdatedNumberScheduled++
		}
	}
	deleted, made := c.pass(t, c.pause)
	disturbs := false
	for node, pod := range c.nodes() {
		if slices.Contains(strings.Fields(deleted), node) && pod != nil {
			disturbs = disturbs || Serves(pod)
			pod.DeletionTimestamp = new(metav1.NewTime(c.now))
		}
	}
	missing, all := 0, 0
	for node, pod := range c.nodes() {
		all++
		if !c.unwanted[node] && (pod == nil || !Serves(pod)) {
			missing++
		}
	}
	if disturbs && missing > max(1, (all+len(c.left))/10) {
		return false, fmt.Errorf("%d of %d nodes are without a node pod; deleted %s: %s", missing, all, deleted, made.Message)
	}
	return made.Ended, nil
}

func TestRolloutsEndWhateverNodesComeAndGo(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for number := range 60 {
		var names []string
		for i := range 1 + random.IntN(24) {
			names = append(names, fmt.Sprintf("n%02d", i))
		}
		c := &churn{operated: operate(names...), random: random, unwanted: map[string]bool{}, pause: 15 * time.Second}
		if random.IntN(4) == 0 {
			c.in.Policy = driver.WhenDrained
			c.replaced(true, names[0])
		}
		for _, node := range names {
			if c.in.Policy == driver.IdleFirst && random.IntN(3) == 0 {
				c.use(node)
			}
		}
		ended := false
		for round := 0; round < 300 && !ended; round++ {
			var err error
			if ended, err = c.step(t); err != nil {
				t.Fatalf("fleet %d, round %d: %v", number, round, err)
			}
			c.happen()
			if round < 20 {
				c.surprise()
			} else {
				c.pause = 5 * time.Minute
			}
		}
		if !ended && c.last.Message != "" {
			t.Fatalf("fleet %d of %d nodes, %d in the end: it goes on: %s", number, len(names), len(c.nodes()), c.last.Message)
		}
	}
}
