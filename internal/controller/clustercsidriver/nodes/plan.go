// Package nodes replaces node pods without disturbing applications, a few nodes at a time. Nodes in use wait, unless an administrator accepts the
// disruption.
//
// One planner serves roll-outs and migrations. step is pure: it computes a Plan from the remembered state and the observed facts. Updater reads the
// facts, and deletes the pods of the Plan.
package nodes

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Plan decides, in a roll-out or a migration, which nodes wait for a new node pod, and which are next.
type Plan struct {
	Rules
	// Nodes are the nodes that have or await a node pod, or have pods that use volumes.
	Nodes map[string]*Node
	// Unscheduled are pods of a predecessor without a node.
	Unscheduled []corev1.Pod
	// Proven: a pod of the newest template serves its node. Failed says what is wrong if none does for too long.
	Proven bool
	Failed string
	// Disturbed are pods, with their nodes, that became unready after their node pod was replaced. Settling is a node whose pods may still become
	// unready.
	Disturbed []string
	Settling  string
}

// Rules are the inputs of a plan that do not change within a step.
type Rules struct {
	// Desired is the number of nodes that should have a node pod, or have an unwanted one.
	Desired int
	// Migrates: pods of a predecessor are replaced, which makes mounts hang. So a node in use keeps its pod, even a broken one.
	Migrates bool
	Policy   driver.RolloutPolicy
	// Now: an administrator wants nodes in use to be replaced like idle ones.
	Now bool
	// Withdrawn names the Secret that the pods of some nodes must lose.
	Withdrawn string
}

// Node is a node and its node pod.
type Node struct {
	// Old is the pod of a predecessor, and Outdated our pod of an earlier template. Neither is being deleted.
	Old, Outdated *corev1.Pod
	// Occupied: the node has a node pod. Serves: one is ready.
	Occupied, Serves bool
	// Problem says why no pod serves.
	Problem string
	// Slow: the new pod is not ready in time. It counts as missing. On an idle node, it does not delay the replacement on nodes in use.
	Slow bool
	// Faulty: no pod of the outdated pod's template is ready on any node, so the template is at fault, not this node.
	Faulty bool
	// Recent: the outdated pod of a node in use has just become unready, and may recover.
	Recent bool
	// Losing: the pod must lose Plan.Withdrawn, so the node is replaced like an idle one.
	Losing bool
	// Down: the node is not ready. Cordoned: it is unschedulable, as in a drain.
	Down, Cordoned bool
	// Users are the pods that use volumes, as "namespace/pod".
	Users []string
}

// InUse reports whether pods use volumes on the node.
func (n *Node) InUse() bool { return len(n.Users) > 0 }

// waits reports whether the node has a pod to replace.
func (n *Node) waits() bool { return n.pod() != nil && !n.Down }

// pod is the pod to replace.
func (n *Node) pod() *corev1.Pod { return cmp.Or(n.Old, n.Outdated) }

// isBroken reports whether the pod to replace has not served for a while.
func (n *Node) isBroken() bool { return n.waits() && !n.Serves && !n.Recent }

// isAway reports whether the node is down but drained, so that its outdated pod can be deleted.
func (n *Node) isAway() bool { return n.Outdated != nil && n.Down && n.Cordoned && !n.InUse() }

// isStarting reports whether a new pod is not ready yet, or the previous one still terminates.
func (n *Node) isStarting() bool { return n.Occupied && n.Problem != "" && !n.waits() }

// at returns a node of the plan, and adds it if missing.
func (p *Plan) at(name string) *Node {
	if p.Nodes[name] == nil {
		p.Nodes[name] = &Node{}
	}
	return p.Nodes[name]
}

// Named returns the names of the matching nodes, sorted.
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

// Problems lists the matching nodes, each with its problem.
func (p Plan) Problems(match func(*Node) bool) []string {
	found := p.Named(match)
	for i, name := range found {
		found[i] = fmt.Sprintf("%s (%s)", name, p.Nodes[name].Problem)
	}
	return found
}

// Number counts the matching nodes.
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

// Count is the number of nodes that are not down, including those with an unwanted node pod.
func (p Plan) Count() int { return max(p.Desired-p.Number(isDown), p.Number(isOccupied)) }

// Most is how many nodes may be without a node pod at a time: a tenth, but at least one.
func (p Plan) Most() int { return max(1, p.Count()/10) }

// missing is the number of nodes without a ready node pod.
func (p Plan) missing() int { return p.Count() - p.Number(serves) }

// busy is the number of nodes that wait for a new pod to become ready.
func (p Plan) busy() int { return p.missing() - p.Number((*Node).isBroken) }

// Without is the number of nodes that have no pod yet.
func (p Plan) Without() int { return max(0, p.Count()-p.Number(isOccupied)) }

// isTrying reports whether a node tries the newest template, or is about to get its pod.
func (p Plan) isTrying() bool { return p.Number((*Node).isStarting)+p.Without() > 0 }

// IsStalled reports whether the next replacement must wait for new pods.
func (p Plan) IsStalled() bool {
	if !p.Proven {
		return p.isTrying()
	}
	return p.busy() >= p.Most()
}

// rank orders the nodes by the disruption: unready pods first, then idle nodes, then nodes in use. A migration replaces our own pods last.
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
		// Soon uncordoned, and used again.
		return 1
	default:
		return 2
	}
}

// Waiting lists the nodes with a pod to replace, in the order of replacement.
func (p Plan) Waiting() []string {
	found := p.Named((*Node).waits)
	slices.SortStableFunc(found, func(a, b string) int { return p.rank(p.Nodes[a]) - p.rank(p.Nodes[b]) })
	return found
}

// hurries reports whether a node in use is replaced like an idle one.
func (p Plan) hurries(node *Node) bool { return p.Now || node.Losing }

// keeps reports whether a node keeps its pod until it is idle.
func (p Plan) keeps(node *Node) bool {
	return node.InUse() && !p.hurries(node) && (p.Migrates || node.Serves && p.Policy != driver.IdleFirst)
}

// candidates are the waiting nodes whose pod may be replaced.
func (p Plan) candidates() []string {
	return slices.DeleteFunc(p.Waiting(), func(name string) bool { return p.Nodes[name].Recent || p.keeps(p.Nodes[name]) })
}

// Next lists the nodes whose pod to delete now. The DaemonSet creates the new one.
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

// isCalm reports whether a node in use may be next: all replaced nodes serve again, except slow idle ones, and no pod was disturbed.
func (p Plan) isCalm(busy int) bool {
	slow := p.Number(func(n *Node) bool { return n.isStarting() && n.Slow && !n.InUse() })
	return len(p.Disturbed) == 0 && p.Settling == "" && busy <= slow
}

// canary is the node to try a new template on; none while one is trying it. Pods of faulty templates come first. A node that may itself be at fault
// for its unready pod comes last, because it would prove nothing.
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
