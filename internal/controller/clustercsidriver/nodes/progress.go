package nodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The reasons of the nodes' condition Progressing while the operator replaces their pods.
const (
	// TryingCanary means that one node tries the new pod, and all other nodes wait.
	TryingCanary = "TryingCanary"
	// PullingImages means that only nodes in use are left, and that they pull the new images before they get a new pod.
	PullingImages = "PullingImages"
	// ReplacingPods means that the operator is replacing node pods.
	ReplacingPods = "ReplacingPods"
	// NodesInUse means that only nodes in use are left. They wait until an administrator drains them.
	NodesInUse = "NodesInUse"
	// NodesDown means that no remaining node is ready.
	NodesDown = "NodesDown"
	// Paused means that the roll-out waits, because pods became unready after the operator replaced their node pod, or because mounts hang on all
	// nodes that are left.
	Paused = "RolloutPaused"
)

// ReplaceNowAnnotation on the ClusterCSIDriver lets the operator replace pods on nodes in use without waiting, as if the nodes were idle. Its value
// is the number of the roll-out, which the condition names. So the annotation does not apply to the next roll-out.
const ReplaceNowAnnotation = "operator.openshift.io/replace-node-pods-now"

// Progress is the progress of a roll-out, and what the operator has done. It is the zero value without a roll-out.
type Progress struct {
	// Reason and Message are the reason and the message of the condition Progressing.
	Reason, Message string
	// Failed says why the canary does not serve. It is empty if nothing is wrong.
	Failed string
	// PullFailed says which nodes in use can't pull the new images. It is empty if nothing is wrong.
	PullFailed string
	// Canary is the node that the operator has just chosen to try the new pod. It is empty if the operator has not just chosen a node.
	Canary string
	// Ended is true if the last node has just got the new pod.
	Ended bool
	// Idle is the number of waiting nodes that are idle. InUse is the number of waiting nodes that are in use.
	Idle, InUse int
	Changes     apply.ChangeSet
	// Since is the creation time of the template.
	Since time.Time
	// Again is the delay until the next reconcile if no event comes earlier; 0 means never.
	Again time.Duration
}

// progress describes a roll-out. Argument "number" is the number of the newest template. Argument "pace" is the average time for which a node is
// without a node pod.
func (p Plan) progress(name, number string, pace time.Duration) Progress {
	waiting := p.Number((*Node).waits)
	inUse := p.Named(func(n *Node) bool { return n.waits() && n.InUse() })
	patient := slices.DeleteFunc(slices.Clone(inUse), func(name string) bool { return p.hurries(p.Nodes[name]) })
	made := Progress{Idle: waiting - len(inUse), InUse: len(inUse), Failed: p.Failed, PullFailed: p.pullProblem()}
	// Nodes that are stuck do not get the new pod next.
	idle := made.Idle - p.Number(func(n *Node) bool { return p.isStuck(n) && !n.InUse() })
	busy := made.InUse - p.Number(func(n *Node) bool { return p.isStuck(n) && n.InUse() })
	made.Reason = p.reason(waiting, len(patient), idle)
	text := fmt.Sprintf("%d of %d nodes have the new node pod", max(0, p.Count()-waiting-p.Without()), p.Count())
	switch {
	case made.Reason == TryingCanary:
		text = fmt.Sprintf("trying the new node pod on %s first; %d nodes keep their old node pod until this first pod is ready and the "+
			"CSINode of its node lists driver %s", p.tried(), waiting, name)
	case !p.Proven:
		text += "; the operator has not tried the new node pod on a node yet"
	case made.Reason == Paused && len(p.Disturbed) > 0:
		text += fmt.Sprintf("; nodes in use keep their node pod, because pods became unready after their node got the new node pod: %s. Check these pods: "+
			"the operator continues when they are ready or deleted, at the latest after an hour", status.Shorten(p.Disturbed))
	}
	users, offer := "", fmt.Sprintf(". To replace these pods now, although the tunnels of their mounts then restart, set annotation %s=%s on "+
		"ClusterCSIDriver %s", ReplaceNowAnnotation, number, name)
	if len(inUse) > 0 && (p.Proven || made.Reason == NodesInUse) {
		users = p.hurryText(inUse) + p.usersText(patient, name, number)
	}
	if strings.Contains(users, ReplaceNowAnnotation) {
		offer = ""
	}
	text += p.pullText() + p.hangText(offer)
	if p.Proven && idle > 0 {
		text += fmt.Sprintf("; %d idle nodes wait", idle)
	}
	text += users
	if left := p.estimate(pace, made.Reason, idle, busy); left > 0 {
		text += fmt.Sprintf("; this takes about %d minutes", left/time.Minute)
	}
	made.Message = text + p.DownText()
	return made
}

// DownText names the nodes that are down. It returns an empty string if no node is down.
func (p Plan) DownText() string {
	if found := p.Named(isDown); len(found) > 0 {
		return "; skipped nodes that are not ready: " + status.Shorten(found)
	}
	return ""
}

// reason sums up what the roll-out waits for. Argument "waiting" is the number of nodes with an outdated pod. Among these nodes, argument "idle" is
// the number of idle nodes that are not stuck, and argument "patient" is the number of nodes in use for which hurries returns false.
func (p Plan) reason(waiting, patient, idle int) string {
	switch {
	case !p.Proven && p.isTrying():
		return TryingCanary
	case p.isPaused(waiting, patient):
		return Paused
	case p.onlyPulls(idle):
		return PullingImages
	case patient > 0 && patient+p.Number(p.hangs) == waiting && p.Policy != driver.IdleFirst:
		return NodesInUse
	case waiting == 0 && !p.isTrying() && p.Number(isDown) > 0:
		return NodesDown
	}
	return ReplacingPods
}

// isPaused reports whether the roll-out waits for pods that became unready, or whether mounts hang on all nodes that are left.
func (p Plan) isPaused(waiting, patient int) bool {
	if p.Policy == driver.IdleFirst && patient > 0 && p.Proven && len(p.Disturbed) > 0 {
		return true
	}
	return waiting > 0 && p.Number(p.isStuck) == waiting
}

// onlyPulls reports whether the roll-out waits only for nodes in use that must pull images.
func (p Plan) onlyPulls(idle int) bool {
	return idle == 0 && !p.isTrying() && len(p.Pulling)+len(p.PullFailed) > 0
}

// pullText returns a text with the nodes in use that pull images, and the nodes in use that can't pull images. The text is empty if there are no such
// nodes.
func (p Plan) pullText() string {
	text := ""
	if len(p.Pulling) > 0 {
		text = fmt.Sprintf("; %d nodes in use pull the images of the new node pod before they get it: %s", len(p.Pulling), status.Shorten(p.Pulling))
	}
	if len(p.PullFailed) > 0 {
		text += "; nodes in use keep their node pod, because images of the new node pod can't be pulled on " + status.Shorten(p.PullFailed)
	}
	return text
}

// pullProblem returns a message if nodes in use can't pull the new images, and otherwise an empty text.
func (p Plan) pullProblem() string {
	if len(p.PullFailed) == 0 {
		return ""
	}
	return "images of the new node pod can't be pulled on " + status.Shorten(p.PullFailed) + ". Nodes in use keep their node pod, and nothing is " +
		"disturbed. Make the image available to these nodes, or correct their pull secret: the kubelet tries again. A node that you drain gets the " +
		"new node pod regardless"
}

// tried returns a text with the name of the canary's node.
func (p Plan) tried() string {
	if found := p.Problems((*Node).isStarting); len(found) > 0 {
		return "node " + status.Shorten(found)
	}
	return "one node"
}

// hurryText describes the nodes in use whose pods the operator replaces without waiting, as if the nodes were idle. It returns an empty text if there
// is no such node.
func (p Plan) hurryText(inUse []string) string {
	count, pods := 0, 0
	for _, name := range inUse {
		if node := p.Nodes[name]; p.hurries(node) {
			count, pods = count+1, pods+len(node.Users)
		}
	}
	if count == 0 {
		return ""
	}
	why := "as annotation " + ReplaceNowAnnotation + " says"
	if !p.Now {
		why = "because these pods must no longer use Secret " + p.Withdrawn
	}
	return fmt.Sprintf("; the operator now replaces the node pods of %d nodes in use, too, %s: mounts of %d pods stall meanwhile", count, why, pods)
}

// usersText returns a text with the waiting nodes in use and their users. The text also says how to replace the pods of these nodes now. It is empty
// if there are no such nodes.
func (p Plan) usersText(inUse []string, name, number string) string {
	if len(inUse) == 0 {
		return ""
	}
	pods := 0
	var names []string
	for _, node := range inUse {
		pods += len(p.Nodes[node].Users)
		names = append(names, p.UsersText(node))
	}
	how := "they follow one at a time"
	switch p.Policy {
	case driver.WhenDrained:
		how = "they wait until they are drained"
	case driver.Unreadable:
		how = "they wait until they are drained, because the value of annotation " + driver.RolloutPolicyAnnotation + " is unknown"
	}
	return fmt.Sprintf("; %d nodes are in use, %s: %s. To replace their pods now, although mounts of %d pods stall meanwhile, set annotation %s=%s on "+
		"ClusterCSIDriver %s", len(inUse), how, status.ShortenTo(names, 10), pods, ReplaceNowAnnotation, number, name)
}

// UsersText returns "node (namespace/pod, ...)" with the pods on the node that use volumes.
func (p Plan) UsersText(node string) string {
	return node + " (" + status.Shorten(p.Nodes[node].Users) + ")"
}

// estimate returns the remaining time of the roll-out in whole minutes. It returns 0 if the time is unknown. Arguments "idle" and "busy" are the
// numbers of idle nodes and of nodes in use that are not stuck.
func (p Plan) estimate(pace time.Duration, reason string, idle, busy int) time.Duration {
	if pace == 0 || reason != ReplacingPods {
		return 0
	}
	most := p.Most()
	left := time.Duration((idle+most-1)/most) * pace
	switch {
	case p.Now:
		left += time.Duration((busy+most-1)/most) * pace
	case p.Policy == driver.IdleFirst:
		left += time.Duration(busy) * pace
	}
	return (left + time.Minute - 1).Truncate(time.Minute)
}
