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

// reports returns how many mounts hang on each node, the nodes that did not report recently, and whether the operator knows these.
func (u *Updater) reports() (map[string]int, []string, knowledge) {
	switch byNode, silent, awaited := u.Hanging(); {
	case awaited:
		return byNode, silent, reportsAwaited
	case byNode == nil:
		return nil, nil, reportsUnknown
	default:
		return byNode, silent, reportsKnown
	}
}

// hangs reports whether a node keeps its pod in a roll-out only because its mounts hang, or may hang.
func (p Plan) hangs(node *Node) bool {
	return node.waits() && p.keeps(node) && (p.Policy == driver.IdleFirst || !node.InUse())
}

// isStuck reports whether a node keeps its pod only because its mounts are known to hang.
func (p Plan) isStuck(node *Node) bool { return node.Hanging > 0 && p.hangs(node) }

// isDoubtful reports whether mounts may hang on a node in use without the operator's knowledge. While the operator awaits reports, isDoubtful reports
// only nodes that wait for them.
func (p Plan) isDoubtful(node *Node) bool {
	isUnknown := p.Reports == reportsUnknown || p.Reports == reportsKnown && node.Silent || p.Reports == reportsAwaited && p.hangs(node)
	return isUnknown && node.waits() && node.InUse() && node.Hanging == 0
}

// hangText names the nodes that keep their pod because their mounts hang. It then has argument "offer". It also says on which nodes in use mounts may
// hang without the operator's knowledge. The text is empty if hanging mounts do not affect the roll-out.
func (p Plan) hangText(offer string) string {
	text := ""
	if found := p.Named(p.isStuck); len(found) > 0 {
		text = "; nodes keep their node pod, because mounts hang there: " + status.Shorten(found) + ". Find out why: the operator continues when the " +
			"mounts work, or after you drain and restart the node" + offer
	}
	doubtful := p.Named(p.isDoubtful)
	if len(doubtful) == 0 || p.Policy != driver.IdleFirst {
		return text
	}
	switch p.Reports {
	case reportsAwaited:
		text += "; nodes in use wait up to two minutes for Prometheus to answer whether mounts hang there"
	case reportsUnknown:
		text += "; it is unknown whether mounts hang on nodes in use, and they do not wait for that"
	case reportsKnown:
		text += "; it is unknown whether mounts hang on nodes in use that do not report, and they do not wait for that: " + status.Shorten(doubtful)
	}
	return text
}
