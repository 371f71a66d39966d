package nodes

import (
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// knowledge says whether the operator knows on which nodes mounts hang. A migration does not need this knowledge.
type knowledge int

const (
	// reportsKnown is also the value if nodes do not report hanging mounts.
	reportsKnown knowledge = iota
	// reportsAwaited means that the operator has just started, and has no answer of all nodes yet. Nodes in use wait for this answer.
	reportsAwaited
	// reportsUnknown means that Prometheus has not answered recently. Nodes in use do not wait.
	reportsUnknown
)

// reports returns how many mounts hang on each node, and whether the operator knows these numbers.
func (u *Updater) reports() (map[string]int, knowledge) {
	switch byNode, awaited := u.Hanging(); {
	case awaited:
		return byNode, reportsAwaited
	case byNode == nil:
		return nil, reportsUnknown
	default:
		return byNode, reportsKnown
	}
}

// hangs reports whether a node keeps its pod only because its mounts hang, or may hang.
func (p Plan) hangs(node *Node) bool {
	return node.waits() && p.keeps(node) && !p.Migrates && (p.Policy == driver.IdleFirst || !node.InUse())
}

// hangText names the nodes that keep their pod because their mounts hang. If the operator does not know where mounts hang, hangText says so. The text
// is empty if hanging mounts do not affect the roll-out.
func (p Plan) hangText() string {
	found := p.Named(p.hangs)
	switch {
	case p.Reports == reportsUnknown && p.Policy == driver.IdleFirst && p.Number(func(n *Node) bool { return n.waits() && n.InUse() }) > 0:
		return "; it is unknown whether mounts hang on nodes in use, and they do not wait for that"
	case len(found) == 0:
		return ""
	case p.Reports == reportsAwaited:
		return "; nodes in use wait up to two minutes for Prometheus to answer whether mounts hang there"
	}
	return "; nodes keep their node pod, because mounts hang there: " + status.Shorten(found) + ". Find out why: the operator continues when " +
		"the mounts work, or after you drain and restart the node"
}
