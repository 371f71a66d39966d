package nodes

import (
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// reports says whether it is known on which nodes mounts hang. A migration does not ask.
type reports int

const (
	// reportsKnown is also the value without reports: they are off.
	reportsKnown reports = iota
	// reportsAwaited means that the operator has just started, and has no answer yet. Nodes in use wait for the answer.
	reportsAwaited
	// reportsUnknown means that there is no recent answer. Nodes in use do not wait.
	reportsUnknown
)

// reports returns how many mounts hang on each node, and whether that is known.
func (u *Updater) reports() (map[string]int, reports) {
	switch byNode, awaited := u.Hanging(); {
	case awaited:
		return nil, reportsAwaited
	case byNode == nil:
		return nil, reportsUnknown
	default:
		return byNode, reportsKnown
	}
}

// mayHang reports whether mounts hang on a node, or the first answer about that is still awaited.
func (p Plan) mayHang(node *Node) bool { return node.Hanging > 0 || p.Reports == reportsAwaited }

// hangs reports whether a node keeps its pod only because its mounts hang, or may hang.
func (p Plan) hangs(node *Node) bool {
	return node.waits() && p.keeps(node) && !p.Migrates && p.Policy == driver.IdleFirst
}

// hangText names the nodes that keep their pod because their mounts hang, or says that this is unknown. The text is empty if no node in use has an
// outdated pod that the roll-out may replace.
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
	return "; nodes in use keep their node pod, because mounts hang there: " + status.Shorten(found) + ". Find out why: the operator continues when " +
		"the mounts work, or the node is drained"
}
