// Package nodes replaces the node pods of a driver where nobody notices: a few nodes at a time. A node on which pods use volumes waits, unless
// an administrator accepts what they lose.
//
// One planner serves roll-outs and migrations. step is pure: it makes a Plan of what is remembered, a state, and of what was seen, the facts.
// Updater reads the facts, and deletes the pods that the Plan names.
package nodes

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Plan is what happens to the node pods of a driver, in a roll-out or in a migration: which nodes wait, and which of them are next.
type Plan struct {
	Rules
	// Nodes are the nodes with a node pod, those that are about to get one, and those with pods that use volumes.
	Nodes map[string]*Node
	// Unscheduled are pods of a predecessor without a node.
	Unscheduled []corev1.Pod
	// Proven means that a pod of the newest template serves its node. Failed says what is wrong if one does not for too long.
	Proven bool
	Failed string
	// Disturbed are pods, with their nodes, that were ready before the node pod of their node was replaced, and are not now. Settling is a node
	// whose pods have not had the time to become unready.
	Disturbed []string
	Settling  string
}

// Rules are what is wanted of the node pods, and what is accepted.
type Rules struct {
	// Desired is the number of nodes that are to have a node pod, or have one although they are to have none.
	Desired int
	// Migrates means that pods of a predecessor are replaced. The mounts of a node in use hang then: it keeps its pod, also one that is broken.
	Migrates bool
	Policy   driver.RolloutPolicy
	// Now means that an administrator wants nodes in use to be replaced like idle ones.
	Now bool
	// Withdrawn names the Secret that the pods of some nodes must lose.
	Withdrawn string
}

// Node is a node and its node pod.
type Node struct {
	// Old is the pod of a predecessor, and Outdated one of ours that an earlier version of the DaemonSet made. Neither is being deleted.
	Old, Outdated *corev1.Pod
	// Occupied means that the node has any node pod, and Serves that one is ready.
	Occupied, Serves bool
	// Problem says why no pod serves.
	Problem string
	// Slow means that the new pod has not served for long: it counts as missing, but nodes in use do not wait for it.
	Slow bool
	// Faulty means that the outdated pod has a template that serves nowhere: it is not the node that is at fault.
	Faulty bool
	// Recent means that the outdated pod of a node in use serves no more since a moment ago: it may serve again.
	Recent bool
	// Losing means that the pod must lose Plan.Withdrawn: in use or not, the node is replaced like an idle one.
	Losing bool
	// Down means that the node is not ready itself, and Cordoned that it takes no new pods, as in a drain.
	Down, Cordoned bool
	// Users are the pods that use volumes, as "namespace/pod".
	Users []string
}

// InUse tells whether pods use volumes there.
func (n *Node) InUse() bool { return len(n.Users) > 0 }

// waits tells whether the node has a pod to replace.
func (n *Node) waits() bool { return n.pod() != nil && !n.Down }

// pod is the one to replace.
func (n *Node) pod() *corev1.Pod { return cmp.Or(n.Old, n.Outdated) }

// isBroken tells whether nothing is taken away with the pod.
func (n *Node) isBroken() bool { return n.waits() && !n.Serves && !n.Recent }

// isAway tells whether the outdated pod can be deleted although its node is down: the node is drained.
func (n *Node) isAway() bool { return n.Outdated != nil && n.Down && n.Cordoned && !n.InUse() }

// isStarting tells whether there is a new pod that does not work yet, or the end of the last one is due.
func (n *Node) isStarting() bool { return n.Occupied && n.Problem != "" && !n.waits() }

// at is a node of the plan, which adds it if need be.
func (p *Plan) at(name string) *Node {
	if p.Nodes[name] == nil {
		p.Nodes[name] = &Node{}
	}
	return p.Nodes[name]
}

// Named are the names of the nodes that match, sorted.
func (p Plan) Named(match func(*Node) bool) []string {
	var found []string
	for name, node := range p.Nodes {
		if match(node) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// Problems are the nodes that match, each with its problem.
func (p Plan) Problems(match func(*Node) bool) []string {
	found := p.Named(match)
	for i, name := range found {
		found[i] = fmt.Sprintf("%s (%s)", name, p.Nodes[name].Problem)
	}
	return found
}

// Number is how many nodes match.
func (p Plan) Number(match func(*Node) bool) int {
	count := 0
	for _, node := range p.Nodes {
		if match(node) {
			count++
		}
	}
	return count
}

func isDown(n *Node) bool     { return n.Down }
func isOccupied(n *Node) bool { return n.Occupied }
func serves(n *Node) bool     { return n.Serves }

// Count is how many nodes there are that are not down; some may have a node pod although they need none.
func (p Plan) Count() int { return max(p.Desired-p.Number(isDown), p.Number(isOccupied)) }

// Most is how many nodes may be without a node pod at a time: a tenth, or one where there are fewer than 20.
func (p Plan) Most() int { return max(1, p.Count()/10) }

// missing is how many nodes are without a node pod that is ready.
func (p Plan) missing() int { return p.Count() - p.Number(serves) }

// busy is how many of these have no broken pod either that could be replaced: they wait for the new one.
func (p Plan) busy() int { return p.missing() - p.Number((*Node).isBroken) }

// Without is how many nodes have no pod at all: the DaemonSet is about to make it.
func (p Plan) Without() int { return max(0, p.Count()-p.Number(isOccupied)) }

// isTrying tells whether a pod of the newest template is tried. Where a node has no pod at all, the one that the DaemonSet makes there is.
func (p Plan) isTrying() bool { return p.Number((*Node).isStarting)+p.Without() > 0 }

// IsStalled tells whether nothing more may be replaced before new pods serve.
func (p Plan) IsStalled() bool {
	if !p.Proven {
		return p.isTrying()
	}
	return p.busy() >= p.Most()
}

// rank sorts the nodes by what is lost with their pod: nothing where it does not serve, nothing either where nobody uses volumes. A migration
// replaces our own pods last.
func (p Plan) rank(node *Node) int {
	switch {
	case p.Migrates && node.Old == nil:
		return 5
	case node.InUse() && node.Serves:
		return 4
	case node.InUse() && p.Migrates:
		return 3
	case !node.Serves:
		return 0
	case node.Cordoned:
		// Pods will soon come back.
		return 1
	default:
		return 2
	}
}

// Waiting are the nodes with a pod to replace, in the order in which that is done.
func (p Plan) Waiting() []string {
	found := p.Named((*Node).waits)
	slices.SortStableFunc(found, func(a, b string) int { return p.rank(p.Nodes[a]) - p.rank(p.Nodes[b]) })
	return found
}

// hurries tells whether a node in use is replaced like an idle one.
func (p Plan) hurries(node *Node) bool { return p.Now || node.Losing }

// keeps tells whether a node keeps its pod until it is idle.
func (p Plan) keeps(node *Node) bool {
	return node.InUse() && !p.hurries(node) && (p.Migrates || node.Serves && p.Policy != driver.IdleFirst)
}

// candidates are the waiting nodes that need not keep their pod.
func (p Plan) candidates() []string {
	return slices.DeleteFunc(p.Waiting(), func(name string) bool { return p.Nodes[name].Recent || p.keeps(p.Nodes[name]) })
}

// Next are the nodes whose pod is to be deleted now. The DaemonSet makes the new one.
func (p Plan) Next() []string {
	if !p.Proven {
		return p.canary()
	}
	chosen := p.Named((*Node).isAway)
	most, missing, busy := p.Most(), p.missing(), p.busy()
	calm, idleLeft := p.isCalm(busy), false
	for _, name := range p.candidates() {
		node := p.Nodes[name]
		switch {
		case busy >= most || (node.Serves && missing >= most):
			idleLeft = idleLeft || node.Serves && !node.InUse()
			continue
		case node.Serves && node.InUse() && !p.hurries(node) && (idleLeft || len(chosen) > 0 || !calm):
			continue
		}
		chosen = append(chosen, name)
		busy++
		if node.Serves {
			missing++
		}
	}
	return chosen
}

// isCalm tells whether a node in use can have its turn: all that were replaced serve again, but for idle nodes that may never do, and no pod was
// disturbed.
func (p Plan) isCalm(busy int) bool {
	slow := p.Number(func(n *Node) bool { return n.isStarting() && n.Slow && !n.InUse() })
	return len(p.Disturbed) == 0 && p.Settling == "" && busy <= slow
}

// canary is the node on which a new template is tried; none while one is tried. Where a template has never worked, its pods come first. A node
// whose own fault it may be that its pod does not serve comes last: it would prove nothing.
func (p Plan) canary() []string {
	if p.isTrying() {
		return nil
	}
	waiting, mayMiss := p.candidates(), p.missing() < p.Most()
	for _, match := range []func(*Node) bool{
		func(n *Node) bool { return n.Faulty || n.Serves && mayMiss },
		func(n *Node) bool { return !n.Serves },
	} {
		if found := slices.IndexFunc(waiting, func(name string) bool { return match(p.Nodes[name]) }); found >= 0 {
			return waiting[found : found+1]
		}
	}
	return nil
}
