package nodes

import (
	"fmt"
	"slices"
	"time"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The reasons of the condition Progressing of the nodes while their pods are replaced.
const (
	// TryingCanary means that one node has the new pod, and all others wait for it.
	TryingCanary = "TryingCanary"
	// ReplacingPods means that node pods are replaced.
	ReplacingPods = "ReplacingPods"
	// NodesInUse means that only nodes in use are left, and wait until they are drained.
	NodesInUse = "NodesInUse"
	// NodesDown means that only nodes are left that are not ready.
	NodesDown = "NodesDown"
	// Paused means that pods became unready after the plugin of their node was replaced.
	Paused = "RolloutPaused"
)

// ReplaceNowAnnotation on the ClusterCSIDriver lets the node pods of nodes in use be replaced like those of idle nodes. Its value is the number
// of the roll-out, which the condition tells: it does not count for the next one.
const ReplaceNowAnnotation = "operator.openshift.io/replace-node-pods-now"

// Progress is how far a roll-out is, and what was done. It is zero if there is none.
type Progress struct {
	// Reason and Message are for the condition Progressing.
	Reason, Message string
	// Failed says why the canary does not serve; empty if nothing is wrong.
	Failed string
	// Canary is the node on which the new pod is tried from now on; empty if that was decided before.
	Canary string
	// Ended means that the last node has the new pod, since a moment ago.
	Ended bool
	// Idle and InUse are the nodes that wait.
	Idle, InUse int
	Changes     apply.ChangeSet
	// Since is when the template was made.
	Since time.Time
	// Again is when to look once more although no event may come.
	Again time.Duration
}

// progress says how far a roll-out is. Number is that of the template, and pace how long a node was without a plugin so far.
func (p Plan) progress(name, number string, pace time.Duration) Progress {
	waiting := p.Number((*Node).waits)
	inUse := p.Named(func(n *Node) bool { return n.waits() && n.InUse() })
	patient := slices.DeleteFunc(slices.Clone(inUse), func(name string) bool { return p.hurries(p.Nodes[name]) })
	made := Progress{Idle: waiting - len(inUse), InUse: len(inUse), Reason: p.reason(waiting, len(patient)), Failed: p.Failed}
	text := fmt.Sprintf("%d of %d nodes have the new node pod", max(0, p.Count()-waiting-p.Without()), p.Count())
	switch {
	case made.Reason == TryingCanary:
		text = fmt.Sprintf("the new node pod is tried on %s; %d nodes keep theirs until it is ready and its CSINode lists driver %s",
			p.tried(), waiting, name)
	case !p.Proven:
		text += "; it is not tried on a node yet"
	case made.Reason == Paused:
		text += fmt.Sprintf("; nodes in use are left alone, because pods became unready after the node pod of their node was replaced: %s. Look at "+
			"these pods: the next node follows when they are ready or deleted, or an hour after their node got its node pod", status.Shorten(p.Disturbed))
	}
	if p.Proven && made.Idle > 0 {
		text += fmt.Sprintf("; %d idle nodes wait", made.Idle)
	}
	if len(inUse) > 0 && (p.Proven || made.Reason == NodesInUse) {
		text += p.hurryText(inUse) + p.usersText(patient, name, number)
	}
	if left := p.estimate(pace, made); left > 0 {
		text += fmt.Sprintf("; this takes about %d minutes", left/time.Minute)
	}
	made.Message = text + p.DownText()
	return made
}

// DownText names the nodes that are down; empty if there are none.
func (p Plan) DownText() string {
	if found := p.Named(isDown); len(found) > 0 {
		return "; nodes that are not ready are left alone: " + status.Shorten(found)
	}
	return ""
}

// reason sums up what the roll-out waits for. Waiting are the nodes with an outdated pod, and patient those of them in use that do not hurry.
func (p Plan) reason(waiting, patient int) string {
	switch {
	case !p.Proven && p.isTrying():
		return TryingCanary
	case p.Proven && p.Policy == driver.IdleFirst && len(p.Disturbed) > 0 && patient > 0:
		return Paused
	case patient > 0 && patient == waiting && p.Policy != driver.IdleFirst:
		return NodesInUse
	case waiting == 0 && !p.isTrying() && p.Number(isDown) > 0:
		return NodesDown
	}
	return ReplacingPods
}

// tried names where the canary is.
func (p Plan) tried() string {
	if found := p.Problems((*Node).isStarting); len(found) > 0 {
		return "node " + status.Shorten(found)
	}
	return "one node"
}

// hurryText says which of the nodes in use are replaced like idle ones.
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
		why = "because they must lose Secret " + p.Withdrawn
	}
	return fmt.Sprintf("; %d nodes in use follow now, %s: mounts of %d pods stall meanwhile", count, why, pods)
}

// usersText says who uses volumes on nodes that wait, and what to do to wait no more.
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
	how := "their turn comes one at a time"
	switch p.Policy {
	case driver.WhenDrained:
		how = "they wait until they are drained"
	case driver.Unreadable:
		how = "they wait until they are drained, because the value of annotation " + driver.RolloutPolicyAnnotation + " is unknown"
	}
	return fmt.Sprintf("; %d nodes are in use, %s: %s. To replace their pods now, although mounts of %d pods stall meanwhile, set annotation %s=%s on "+
		"ClusterCSIDriver %s", len(inUse), how, status.ShortenTo(names, 10), pods, ReplaceNowAnnotation, number, name)
}

// UsersText is a node with the pods that use volumes there.
func (p Plan) UsersText(node string) string {
	return node + " (" + status.Shorten(p.Nodes[node].Users) + ")"
}

// estimate is how long the roll-out will go on, in whole minutes; 0 if that is not known.
func (p Plan) estimate(pace time.Duration, made Progress) time.Duration {
	if pace == 0 || made.Reason != ReplacingPods {
		return 0
	}
	most := p.Most()
	left := time.Duration((made.Idle+most-1)/most) * pace
	switch {
	case p.Now:
		left += time.Duration((made.InUse+most-1)/most) * pace
	case p.Policy == driver.IdleFirst:
		left += time.Duration(made.InUse) * pace
	}
	return (left + time.Minute - 1).Truncate(time.Minute)
}
