// Package nodes replaces node pods without disturbing applications, a few nodes at a time. Nodes in use wait, unless an administrator accepts the
// disruption.
//
// One planner serves roll-outs and migrations. step is pure: it computes a Plan from the remembered state and the observed facts. Updater reads the
// facts, and deletes the pods that the Plan names.
package nodes

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Plan decides which nodes wait for a new node pod, and which nodes are next. It serves roll-outs and migrations.
type Plan struct {
	Rules
	// Nodes are the nodes that have a node pod, wait for a node pod, or have pods that use volumes.
	Nodes map[string]*Node
	// Unscheduled are pods of a predecessor that have no node.
	Unscheduled []corev1.Pod
	// Proven is true once a pod of the newest template has served its node. Failed says what is wrong if no such pod serves in time.
	Proven bool
	Failed string
	// Disturbed names the pods that became unready after the operator replaced the node pod on their node. Each name includes the node. Settling is a
	// node whose pods may still become unready.
	Disturbed []string
	Settling  string
	// Unmountable are volumes that the new driver refuses to mount, each with the reason.
	Unmountable []string
	// Pulling are nodes in use that pull the new images. PullFailed are nodes in use that can't pull the new images, each with the kubelet's message.
	Pulling, PullFailed []string
}

// Accepted says what an administrator accepts in a migration. With Remount, mounts on nodes in use may hang. With Refused, pods may lose volumes that
// the new driver refuses.
type Accepted struct{ Remount, Refused bool }

// Rules are inputs of a plan. They do not change within a step.
type Rules struct {
	// Desired is the number of nodes that should have a node pod, plus the number of nodes with an unwanted node pod.
	Desired int
	// Migrates is true in a migration. Replacing a predecessor's pod makes mounts hang, so a node in use keeps even a broken node pod.
	Migrates bool
	Policy   driver.RolloutPolicy
	// Now is true if an administrator wants the operator to replace pods on nodes in use without waiting, as if these nodes were idle.
	Now bool
	// Refused is true if an administrator accepts that pods lose volumes that the new driver refuses to mount.
	Refused bool
	// Reports says whether the operator knows on which nodes mounts hang.
	Reports knowledge
	// Withdrawn names a Secret that node pods must no longer mount. It is empty if no such Secret exists.
	Withdrawn string
}

// Node is a node and its node pod.
type Node struct {
	// Old is the pod of a predecessor. Outdated is our pod of an earlier template. Neither pod has a deletionTimestamp.
	Old, Outdated *corev1.Pod
	// Occupied is true if the node has a node pod. Serves is true if a node pod there is ready.
	Occupied, Serves bool
	// Problem says why no node pod serves the node. It is empty if a node pod serves the node.
	Problem string
	// Slow is true if the new pod is not ready in time. A slow pod counts as missing. On an idle node, a slow pod does not delay replacements on nodes
	// in use.
	Slow bool
	// Faulty is true if no pod with the template of the outdated pod is ready on any node. In that case, the template is at fault, and not this node.
	Faulty bool
	// Recent is true if the outdated pod of a node in use has just become unready. The pod may recover.
	Recent bool
	// Losing is true if the pod mounts the Secret Rules.Withdrawn. The pod must lose this Secret, so the operator replaces the pod even if the node is
	// in use.
	Losing bool
	// NewImages are the images of the new node pod that the outdated pod lacks. AwaitsImages is true if the node must have these images before the
	// operator replaces the outdated pod.
	NewImages    []string
	AwaitsImages bool
	// Hanging is the number of mounts on the node that are known to hang. The true number can be higher. Hanging is 0 if nothing is known.
	Hanging int
	// Silent is true if the node lacks a recent report, so that it is unknown whether more mounts hang there.
	Silent bool
	// Down is true if the node is not ready. Cordoned is true if the node is unschedulable, as in a drain.
	Down, Cordoned bool
	// Users are the pods that use volumes, as "namespace/pod". Refused are the users that have mounted a volume that the new driver refuses.
	Users, Refused []string
}

// InUse reports whether pods on the node use volumes of the driver.
func (n *Node) InUse() bool { return len(n.Users) > 0 }

// waits reports whether the node has a pod to replace, and is not down.
func (n *Node) waits() bool { return n.pod() != nil && !n.Down }

// pod returns the node pod to replace.
func (n *Node) pod() *corev1.Pod { return cmp.Or(n.Old, n.Outdated) }

// isBroken reports whether the node pod to replace has not served for a while.
func (n *Node) isBroken() bool { return n.waits() && !n.Serves && !n.Recent }

// isAway reports whether the node is down and drained, so that the operator can delete its outdated pod.
func (n *Node) isAway() bool { return n.Outdated != nil && n.Down && n.Cordoned && !n.InUse() }

// isStarting reports whether a new node pod is not ready yet, or the previous node pod still terminates.
func (n *Node) isStarting() bool { return n.Occupied && n.Problem != "" && !n.waits() }

// at returns a node of the plan. It adds the node if the plan lacks it.
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

// Count returns the number of nodes that are not down. It includes nodes with an unwanted node pod.
func (p Plan) Count() int { return max(p.Desired-p.Number(isDown), p.Number(isOccupied)) }

// Most returns how many nodes may be without a node pod at the same time: a tenth of the nodes, but at least one.
func (p Plan) Most() int { return max(1, p.Count()/10) }

// missing returns the number of nodes without a ready node pod.
func (p Plan) missing() int { return p.Count() - p.Number(serves) }

// busy returns the number of nodes that wait for a new pod to become ready.
func (p Plan) busy() int { return p.missing() - p.Number((*Node).isBroken) }

// Without returns the number of nodes that have no node pod yet.
func (p Plan) Without() int { return max(0, p.Count()-p.Number(isOccupied)) }

// isTrying reports whether a node has a new node pod that is not ready yet, or is about to get one.
func (p Plan) isTrying() bool { return p.Number((*Node).isStarting)+p.Without() > 0 }

// IsStalled reports whether the next replacement must wait for new pods.
func (p Plan) IsStalled() bool {
	if !p.Proven {
		return p.isTrying()
	}
	return p.busy() >= p.Most()
}

// rank orders the nodes by how much a replacement disturbs pods. First come nodes whose node pod is not ready, then idle nodes, and then nodes in
// use. In a migration, a node in use comes after idle nodes even if its node pod is not ready, and this operator's own pods come last.
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
		// An administrator may soon uncordon this node, and pods may then use it again. So replace its node pod before the node pods of other idle nodes.
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

// hurries reports whether the operator replaces the pod of this node without waiting, as if the node were idle.
func (p Plan) hurries(node *Node) bool { return (p.Now && !p.Holds(node)) || node.Losing }

// Holds reports whether a node keeps its predecessor's pod because pods there have mounted volumes that the new driver refuses to mount.
func (p Plan) Holds(node *Node) bool { return node.Old != nil && len(node.Refused) > 0 && !p.Refused }

// keeps reports whether a node keeps its pod until the node is idle. A node whose mounts hang keeps its pod until the mounts work again, because the
// mounts need the tunnels of the pod. That includes mounts that remain on an idle node.
func (p Plan) keeps(node *Node) bool {
	switch {
	case p.hurries(node):
		return false
	case p.Migrates:
		return node.InUse()
	}
	return node.Serves && (node.Hanging > 0 || node.InUse() && (p.Policy != driver.IdleFirst || p.Reports == reportsAwaited))
}

// candidates returns the waiting nodes whose pod the operator may replace.
func (p Plan) candidates() []string {
	return slices.DeleteFunc(p.Waiting(), func(name string) bool { return p.Nodes[name].Recent || p.keeps(p.Nodes[name]) })
}

// withImages leaves out nodes that must have the new images before the operator replaces their pod.
func (p Plan) withImages(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return p.Nodes[name].AwaitsImages })
}

// Next lists the nodes whose pod the operator deletes now. The DaemonSet creates the new pods.
func (p Plan) Next() []string {
	if !p.Proven {
		return p.withImages(p.canary())
	}
	chosen := p.Named((*Node).isAway)
	most, missing, busy := p.Most(), p.missing(), p.busy()
	calm, idleLeft := p.isCalm(busy), false
	for _, name := range p.withImages(p.candidates()) {
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

// isCalm reports whether a node in use may be next. All replaced nodes must serve again, except slow idle nodes. No pod may be disturbed or still
// settling. No node may be pulling images, and no pull may have failed.
func (p Plan) isCalm(busy int) bool {
	slow := p.Number(func(n *Node) bool { return n.isStarting() && n.Slow && !n.InUse() })
	return len(p.Disturbed) == 0 && len(p.Pulling)+len(p.PullFailed) == 0 && p.Settling == "" && busy <= slow
}

// canary returns the node on which to try a new template. It returns no node while a node tries the template. Nodes whose pod has a faulty template
// come first. A node with an unready pod comes last, because the node itself may be at fault, and the trial would then prove nothing.
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
