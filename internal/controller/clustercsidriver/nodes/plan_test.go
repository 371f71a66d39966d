package nodes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// planOf reads nodes such as "a:old b:old,used c:new d:new,starting e:old,broken f:old,cordoned g:none h:old,down,cordoned".
func planOf(policy driver.RolloutPolicy, text string) Plan {
	p := Plan{Rules: Rules{Policy: policy}, Proven: true, Nodes: map[string]*Node{}}
	for _, each := range strings.Fields(text) {
		p.Desired++
		name, words, _ := strings.Cut(each, ":")
		is := func(word string) bool { return slices.Contains(strings.Split(words, ","), word) }
		node := p.at(name)
		node.Cordoned, node.Down = is("cordoned"), is("down")
		if is("used") {
			node.Users = []string{"shop/" + name}
		}
		if node.Silent = is("silent"); is("hanging") {
			node.Hanging = 2
		}
		if is("old") {
			node.Outdated = &corev1.Pod{}
		}
		if is("none") || node.Down {
			continue
		}
		node.Occupied, node.Slow, node.Faulty = true, is("slow"), is("faulty")
		node.Serves = !is("starting") && !is("slow") && !is("broken") && !is("faulty")
		if !node.Serves {
			node.Problem = "ContainerCreating"
		}
	}
	return p
}

// many are nodes with numbers.
func many(count int, words string) string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("n%02d:%s", i, words))
	}
	return strings.Join(all, " ")
}

func TestWhichOutdatedPodsAreReplacedNext(t *testing.T) {
	for name, tc := range map[string]struct {
		policy driver.RolloutPolicy
		nodes  string
		change func(*Plan)
		want   string
	}{
		"a canary first":                             {driver.IdleFirst, "a:old b:old c:old", unproven, "a"},
		"a canary on an idle node":                   {driver.IdleFirst, "a:old,used b:old c:old", unproven, "b"},
		"a canary on a drained node":                 {driver.IdleFirst, "a:old b:old,cordoned c:old", unproven, "b"},
		"a canary on a node in use if all are":       {driver.IdleFirst, "a:old,used b:old,used", unproven, "a"},
		"no canary on a node in use":                 {driver.WhenDrained, "a:old,used b:old,used", unproven, ""},
		"nor by a policy that can't be read":         {driver.Unreadable, "a:old,used b:old,used", unproven, ""},
		"nothing beside a canary":                    {driver.IdleFirst, "a:starting b:old c:old", unproven, ""},
		"nothing while a pod is made":                {driver.IdleFirst, "a:none b:old c:old", unproven, ""},
		"the next canary where the last failed":      {driver.IdleFirst, many(20, "old") + " x:old,faulty", unproven, "x"},
		"no canary on a node that may be broken":     {driver.IdleFirst, many(20, "old") + " a:old,broken", unproven, "n00"},
		"a canary on it if nothing else may go":      {driver.IdleFirst, "a:old,broken b:old c:old", unproven, "a"},
		"a tenth, rounded down":                      {driver.IdleFirst, many(29, "old"), nil, "n00 n01"},
		"one of few":                                 {driver.IdleFirst, many(5, "old"), nil, "n00"},
		"those that are drained first":               {driver.IdleFirst, "a:old b:old,cordoned", nil, "b"},
		"broken ones before all":                     {driver.IdleFirst, "a:old b:old,cordoned c:old,broken,used", nil, "c"},
		"not more than may be missing":               {driver.IdleFirst, many(19, "old") + " x:starting", nil, "n00"},
		"none while all that may be missing are":     {driver.IdleFirst, many(18, "old") + " x:starting y:slow", nil, ""},
		"not on nodes in use while others wait":      {driver.IdleFirst, many(30, "old,used") + " a:old b:old c:old d:old e:old", nil, "a b c"},
		"not on nodes in use while others start":     {driver.IdleFirst, many(30, "old,used") + " a:starting", nil, ""},
		"on nodes in use beside one that is slow":    {driver.IdleFirst, many(30, "old,used") + " a:slow", nil, "n00"},
		"not on nodes in use while one has no pod":   {driver.IdleFirst, many(30, "old,used") + " a:none", nil, ""},
		"not beside one in use that is slow":         {driver.IdleFirst, many(30, "old,used") + " a:slow,used", nil, ""},
		"one node in use at a time":                  {driver.IdleFirst, many(30, "old,used"), nil, "n00"},
		"no node in use until it is drained":         {driver.WhenDrained, many(30, "old,used") + " a:old", nil, "a"},
		"no node in use by such a policy":            {driver.Unreadable, many(30, "old,used"), nil, ""},
		"idle nodes by a policy that can't be read":  {driver.Unreadable, many(30, "old,used") + " a:old", nil, "a"},
		"all at once although it can't be read":      {driver.Unreadable, many(30, "old,used") + " a:old", func(p *Plan) { p.Now = true }, "a n00 n01"},
		"a broken one in use too":                    {driver.WhenDrained, many(30, "old,used") + " a:old,used,broken", nil, "a"},
		"all at once if somebody says so":            {driver.WhenDrained, many(30, "old,used") + " a:old", func(p *Plan) { p.Now = true }, "a n00 n01"},
		"not where pods were disturbed":              {driver.IdleFirst, "a:old,used", func(p *Plan) { p.Disturbed = []string{"x"} }, ""},
		"not while pods are given time":              {driver.IdleFirst, "a:old,used", func(p *Plan) { p.Settling = "b" }, ""},
		"on idle nodes although pods were disturbed": {driver.IdleFirst, "a:old,used b:old", func(p *Plan) { p.Disturbed = []string{"x"} }, "b"},
		"not on a node whose mounts hang":            {driver.IdleFirst, "a:old,used,hanging b:old,used", nil, "b"},
		"no canary there":                            {driver.IdleFirst, "a:old,used,hanging", unproven, ""},
		"on such a node if its pod does not serve":   {driver.IdleFirst, "a:old,used,hanging,broken", nil, "a"},
		"nor if it is idle":                          {driver.IdleFirst, "a:old,hanging b:old,used", nil, "b"},
		"nor with another policy":                    {driver.WhenDrained, "a:old,hanging b:old", nil, "b"},
		"no canary there if it is idle":              {driver.IdleFirst, "a:old,hanging b:old,used", unproven, "b"},
		"on an idle one if the annotation says so":   {driver.IdleFirst, "a:old,hanging", func(p *Plan) { p.Now = true }, "a"},
		"on such a node if the annotation says so":   {driver.IdleFirst, "a:old,used,hanging", func(p *Plan) { p.Now = true }, "a"},
		"on nodes in use although one is down":       {driver.IdleFirst, "a:old,used b:old,down", nil, "a"},
		"at once on a drained node that is down":     {driver.IdleFirst, "a:new b:old,down,cordoned", nil, "b"},
		"not on a node in use that is down":          {driver.IdleFirst, "a:new b:old,down,cordoned,used", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			plan := planOf(tc.policy, tc.nodes)
			if tc.change != nil {
				tc.change(&plan)
			}
			if got := strings.Join(plan.Next(), " "); got != tc.want {
				t.Errorf("next %q, want %q", got, tc.want)
			}
		})
	}
}

// A change and a migration have the same bound, also where there are no ten nodes.
func TestNeverMoreThanATenthOfTheNodesAtOnce(t *testing.T) {
	for count := 1; count <= 120; count++ {
		plan := planOf(driver.IdleFirst, many(count, "old"))
		migration := planOf(driver.IdleFirst, many(count, "old"))
		migration.Migrates = true
		for _, node := range migration.Nodes {
			node.Old, node.Outdated = node.Outdated, nil
		}
		for name, next := range map[string][]string{"a change": plan.Next(), "a migration": migration.Next()} {
			if got := len(next); got != max(1, count/10) {
				t.Errorf("%s replaces %d of %d at once", name, got, count)
			}
		}
	}
}

func unproven(p *Plan) { p.Proven = false }

// fleet is a cluster of nodes that are in use or not, fail and come back.
type fleet struct {
	random *rand.Rand
	policy driver.RolloutPolicy
	now    bool
	nodes  []simulated
	names  []string
	proven bool
}

type simulated struct{ old, serves, used, down, cordoned bool }

func newRandomFleet(random *rand.Rand) *fleet {
	f := &fleet{random: random, policy: driver.IdleFirst, now: random.IntN(10) == 0, nodes: make([]simulated, 1+random.IntN(25))}
	if random.IntN(3) == 0 {
		f.policy = []driver.RolloutPolicy{driver.WhenDrained, driver.Unreadable}[random.IntN(2)]
	}
	used := random.IntN(11)
	for i := range f.nodes {
		f.names = append(f.names, fmt.Sprintf("n%02d", i))
		f.nodes[i] = simulated{old: true, serves: random.IntN(20) > 0, used: random.IntN(10) < used}
	}
	return f
}

func (f *fleet) plan() Plan {
	plan := planOf(f.policy, "")
	plan.Proven, plan.Now, plan.Desired = f.proven, f.now, len(f.nodes)
	for i, simulated := range f.nodes {
		node := plan.at(f.names[i])
		if simulated.used {
			node.Users = []string{"shop/x"}
		}
		node.Cordoned, node.Down = simulated.cordoned, simulated.down
		if simulated.old {
			node.Outdated = &corev1.Pod{}
		}
		if simulated.down {
			continue
		}
		node.Occupied, node.Serves = true, simulated.serves
		if !simulated.serves {
			node.Problem = "ContainerCreating"
		}
	}
	return plan
}

// isDone tells whether nothing is left to replace, or nothing happens any more.
func (f *fleet) isDone(round int) bool {
	plan := f.plan()
	calm := round > surprises && plan.Number((*Node).isStarting) == 0 && plan.Number(isDown) == 0 && len(plan.Next()) == 0
	return calm || !slices.ContainsFunc(f.nodes, func(node simulated) bool { return node.old })
}

// surprises is for how many rounds pods come and go, and nodes fail.
const surprises = 30

// step replaces pods, and checks what the choice breaks.
func (f *fleet) step() error {
	plan := f.plan()
	next := plan.Next()
	missing, disturbed, idleLeft := plan.missing(), 0, 0
	for i, node := range f.nodes {
		name := f.names[i]
		switch chosen := slices.Contains(next, name); {
		case !chosen && node.old && node.serves && !node.used && !node.down:
			idleLeft++
		case chosen && !node.old:
			return fmt.Errorf("%s has the new pod", name)
		case chosen && node.down && (node.used || !node.cordoned):
			return fmt.Errorf("%s is down and not drained", name)
		case chosen && !node.down && node.serves:
			missing++
			if node.used {
				disturbed++
			}
		}
	}
	switch {
	case missing > plan.missing() && missing > plan.Most():
		return fmt.Errorf("%d of %d would be missing: %v", missing, plan.Count(), next)
	case !f.proven && len(next) > 1:
		return fmt.Errorf("canaries %v", next)
	case disturbed > 0 && idleLeft > 0:
		return fmt.Errorf("nodes in use before %d idle ones: %v", idleLeft, next)
	case disturbed > 0 && f.policy != driver.IdleFirst && !f.now, disturbed > 1 && !f.now:
		return fmt.Errorf("%d nodes in use: %v", disturbed, next)
	}
	for i := range f.nodes {
		if slices.Contains(next, f.names[i]) {
			f.nodes[i].old, f.nodes[i].serves = false, false
		}
	}
	return nil
}

// happen lets time pass: new pods begin to serve, and if there are surprises, pods come and go, and nodes fail.
func (f *fleet) happen(surprising bool) {
	for i := range f.nodes {
		node := &f.nodes[i]
		if !node.old && !node.down && f.random.IntN(2) == 0 {
			node.serves, f.proven = true, true
		}
		if !surprising {
			node.down = false
			continue
		}
		for _, state := range []*bool{&node.used, &node.cordoned, &node.down} {
			if f.random.IntN(20) == 0 {
				*state = !*state
			}
		}
	}
}

func TestRandomFleetsAreReplacedInOrderAndToTheEnd(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for number := range 4000 {
		f := newRandomFleet(random)
		for round := 0; round < 400 && !f.isDone(round); round++ {
			if err := f.step(); err != nil {
				t.Fatalf("fleet %d of %d nodes, round %d: %v", number, len(f.nodes), round, err)
			}
			f.happen(round < surprises)
		}
		for i, node := range f.nodes {
			waits := f.policy != driver.IdleFirst && !f.now && node.used && node.serves
			// Without a node on which it could be tried, it is not.
			if node.old && !waits && (f.policy == driver.IdleFirst || f.proven) {
				t.Fatalf("fleet %d of %d nodes, %s: node %d is left as it was: %+v", number, len(f.nodes), f.policy, i, node)
			}
		}
	}
}

func TestWhatARolloutSays(t *testing.T) {
	for name, tc := range map[string]struct {
		plan Plan
		pace int
		want Progress
	}{
		"the canary": {
			unprovenPlan("a:starting b:old c:old,used"), 0, Progress{
				Reason: TryingCanary, Idle: 1, InUse: 1,
				Message: "trying the new node pod on node a (ContainerCreating) first; 2 nodes keep their old node pod until this first pod is ready and the CSINode of its node lists driver d",
			},
		},
		"idle nodes": {
			planOf(driver.IdleFirst, "a:new b:old c:old"), 30, Progress{
				Reason: ReplacingPods, Idle: 2, Message: "1 of 3 nodes have the new node pod; 2 idle nodes wait; this takes about 1 minutes",
			},
		},
		"nodes in use": {
			planOf(driver.IdleFirst, "a:new b:old,used c:old,used"), 90, Progress{
				Reason: ReplacingPods, InUse: 2, Message: "1 of 3 nodes have the new node pod; 2 nodes are in use, they follow one at a time: b (shop/b), c (shop/c). To replace their pods now, although mounts of 2 pods stall meanwhile, set annotation operator.openshift.io/replace-node-pods-now=7 on ClusterCSIDriver d; this takes about 3 minutes",
			},
		},
		"nodes that wait for a drain": {
			planOf(driver.WhenDrained, "a:new b:old,used"), 90, Progress{
				Reason: NodesInUse, InUse: 1, Message: "1 of 2 nodes have the new node pod; 1 nodes are in use, they wait until they are drained: b (shop/b). To replace their pods now, although mounts of 1 pods stall meanwhile, set annotation operator.openshift.io/replace-node-pods-now=7 on ClusterCSIDriver d",
			},
		},
		"nodes that wait for a policy": {
			planOf(driver.Unreadable, "a:new b:old,used"), 90, Progress{
				Reason: NodesInUse, InUse: 1, Message: "1 of 2 nodes have the new node pod; 1 nodes are in use, they wait until they are drained, because " +
					"the value of annotation operator.openshift.io/node-rollout-policy is unknown: b (shop/b). To replace their pods now, although mounts of 1 pods stall meanwhile, set annotation operator.openshift.io/replace-node-pods-now=7 on ClusterCSIDriver d",
			},
		},
		"a pause": {
			disturbedPlan("a:new b:old,used", "shop/x on a"), 0, Progress{
				Reason: Paused, InUse: 1, Message: "1 of 2 nodes have the new node pod; nodes in use keep their node pod, because pods became unready after " +
					"their node got the new node pod: shop/x on a. Check these pods: the operator continues when they are ready or deleted, at the latest after an hour; 1 nodes are in use, they follow one at a time: b (shop/b). To replace their pods now, although mounts of 1 pods stall meanwhile, set annotation operator.openshift.io/replace-node-pods-now=7 on ClusterCSIDriver d",
			},
		},
		"a pause until mounts work": {
			planOf(driver.IdleFirst, "a:new b:old,used,hanging"), 0, Progress{
				Reason: Paused, InUse: 1, Message: "1 of 2 nodes have the new node pod; nodes keep their node pod, because mounts hang there: b. Find " +
					"out why: the operator continues when the mounts work, or after you drain and restart the node; 1 nodes are in use, they follow one at a time: b (shop/b). To replace their pods now, although mounts of 1 pods stall meanwhile, set annotation operator.openshift.io/replace-node-pods-now=7 on ClusterCSIDriver d",
			},
		},
		"a pause until mounts on an idle node work": {
			planOf(driver.WhenDrained, "a:new b:old,hanging"), 0, Progress{
				Reason: Paused, Idle: 1, Message: "1 of 2 nodes have the new node pod; nodes keep their node pod, because mounts hang there: b. Find " +
					"out why: the operator continues when the mounts work, or after you drain and restart the node. To replace these pods now, although the tunnels of their mounts then restart, set annotation operator.openshift.io/replace-node-pods-now=7 on ClusterCSIDriver d",
			},
		},
		"a pause before the canary": {
			unprovenPlan("b:old,used,hanging"), 0, Progress{
				Reason: Paused, InUse: 1, Message: "0 of 1 nodes have the new node pod; the operator has not tried the new node pod on a node yet; nodes keep " +
					"their node pod, because mounts hang there: b. Find out why: the operator continues when the mounts work, or after you drain and restart the node. To replace these pods now, although the tunnels of their mounts then restart, set annotation operator.openshift.io/replace-node-pods-now=7 on ClusterCSIDriver d",
			},
		},
		"no pause where nodes in use wait for a drain": {
			func() Plan {
				plan := disturbedPlan("a:new b:old,used", "shop/x on a")
				plan.Policy = driver.WhenDrained
				return plan
			}(), 0, Progress{
				Reason: NodesInUse, InUse: 1, Message: "1 of 2 nodes have the new node pod; 1 nodes are in use, they wait until they are drained: b (shop/b). To replace their pods now, although mounts of 1 pods stall meanwhile, set annotation operator.openshift.io/replace-node-pods-now=7 on ClusterCSIDriver d",
			},
		},
		"nodes that are down": {
			planOf(driver.IdleFirst, "a:new b:old c:old,down"), 0, Progress{
				Reason: ReplacingPods, Idle: 1,
				Message: "1 of 2 nodes have the new node pod; 1 idle nodes wait; skipped nodes that are not ready: c",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.plan.progress("d", "7", seconds(tc.pace))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func unprovenPlan(text string) Plan {
	plan := planOf(driver.IdleFirst, text)
	plan.Proven = false
	return plan
}

func disturbedPlan(text, pod string) Plan {
	plan := planOf(driver.IdleFirst, text)
	plan.Disturbed = []string{pod}
	return plan
}

func seconds(number int) time.Duration { return time.Duration(number) * time.Second }
