package migration

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// loss says what happens to pods with volumes while their node has no node pod, and what the administrator must do afterwards.
type loss struct{ what, then string }

// lossOf returns the loss for this driver. For EFS, mounts hang, because the TLS tunnels of the mounts end with the node pod. Disks stay mounted.
func (m *Migration) lossOf() loss {
	if len(m.Driver.OldNamespaces()) > 0 {
		return loss{what: "no pod there could mount or unmount volumes until the new node pod runs"}
	}
	return loss{what: "the mounts of these pods would hang", then: " and restart the pods afterwards"}
}

// replacePods deletes predecessors' pods on idle nodes, so that our pods replace them. At any time, at most a tenth of the nodes, but at least one,
// may be without a node pod. replacePods reads live, because with a lagging cache it would delete too many pods.
func (m *Migration) replacePods(ctx context.Context, state State, daemonSet *appsv1.DaemonSet) (Moved, error) {
	if wait := leastInterval - m.Now().Sub(m.surveyed); wait > 0 {
		// Each new pod triggers a reconcile. To save requests, the operator reuses the last result for a while.
		last := m.lastMoved
		last.Changes, last.Again = nil, status.MinRequeue(last.Again, wait)
		return last, nil
	}
	plan, err := m.survey(ctx, state, daemonSet, nodes.Wanted(daemonSet))
	if err != nil {
		return Moved{}, err
	}
	deleted, err := m.updater.Replace(ctx, plan)
	if err != nil {
		return Moved{}, err
	}
	moved := Moved{
		Message: m.message(plan), Serving: plan.Number(func(n *nodes.Node) bool { return n.Serves }),
		Stalled: len(deleted) == 0 && plan.IsStalled(),
	}
	// Pods that use volumes can run for days, so each pause before the next check is longer than the last one.
	moved.Again = m.patience.Pause(m.Now(), moved.Message)
	m.surveyed, m.lastMoved = m.Now(), moved
	moved.Changes = deleted
	return moved, nil
}

// survey reads all node pods and all users of volumes. Argument "desired" is the number of nodes that should have a node pod. Argument "daemonSet" is
// nil if this operator does not own the DaemonSet yet.
func (m *Migration) survey(ctx context.Context, state State, daemonSet *appsv1.DaemonSet, desired int) (nodes.Plan, error) {
	pods, err := m.nodePods(ctx, m.Live, func(*corev1.Pod) bool { return true })
	if err != nil {
		return nodes.Plan{}, err
	}
	for _, namespace := range m.Driver.OldNamespaces() {
		if !m.active(namespace) {
			continue
		}
		old, err := m.podsIn(ctx, namespace)
		if err != nil {
			return nodes.Plan{}, err
		}
		pods = append(pods, old.nodes...)
	}
	m.olds = m.tables(m.versions(m.oldOf(pods)))
	return m.updater.Survey(ctx, pods, daemonSet, desired, nodes.Accepted{Remount: state.accepted, Refused: state.acceptsRefused})
}

// left lists the nodes with a pod of a predecessor, in the order of replacement.
func left(p nodes.Plan) []string {
	return slices.DeleteFunc(p.Waiting(), func(node string) bool { return p.Nodes[node].Old == nil })
}

// message returns a text with the progress of the migration, and with what blocks the migration.
func (m *Migration) message(p nodes.Plan) string {
	loss, old := m.lossOf(), left(p)
	text := fmt.Sprintf("%d of %d nodes still have a pod of the predecessor", len(old), p.Count())
	var inUse []string
	for _, node := range old {
		if p.Nodes[node].InUse() && !p.Now {
			inUse = append(inUse, p.UsersText(node))
		}
	}
	if len(inUse) > 0 {
		text += fmt.Sprintf("; on %d of these nodes, pods use volumes: %s. If the operator replaced the node pods there, %s. Drain these nodes, delete "+
			"the pods, or set annotation %s=true on ClusterCSIDriver %s%s",
			len(inUse), shortenNodes(inUse), loss.what, AcceptRemountAnnotation, m.Driver.Name, loss.then)
	}
	text += m.unmountable(p, old)
	if outdated := p.Number(func(n *nodes.Node) bool { return n.Outdated != nil && !n.Down }); outdated > 0 {
		text += fmt.Sprintf("; %d nodes have an outdated pod of this operator; nodes in use keep it until no pod of the predecessor is left",
			outdated)
	}
	pending := p.Problems(func(n *nodes.Node) bool { return n.Problem != "" && n.Old == nil })
	if without := p.Without() - len(pending); without > 0 {
		text += fmt.Sprintf("; %d nodes have no node pod yet: if that lasts, read the events of the DaemonSet", without)
	}
	if len(pending) > 0 {
		text += "; waiting for the new pods on " + status.Shorten(pending)
		if !p.Proven && len(old) > 0 {
			text += " before other nodes get one"
		}
	}
	return text + p.DownText()
}

// unmountable returns a text with the volumes that the new driver refuses to mount, and with the nodes that keep their node pod because pods use
// these volumes.
func (m *Migration) unmountable(p nodes.Plan, old []string) string {
	if len(p.Unmountable) == 0 {
		return ""
	}
	text := "; the new driver refuses to mount these PersistentVolumes: " + status.ShortenTo(p.Unmountable, mostVolumes)
	if len(p.Unmountable) > mostVolumes {
		text += `, which "oc storage migrate plan" lists`
	}
	var held []string
	for _, node := range old {
		if p.Holds(p.Nodes[node]) {
			held = append(held, fmt.Sprintf("%s (%s)", node, status.Shorten(p.Nodes[node].Refused)))
		}
	}
	if len(held) > 0 {
		also := ""
		if !p.Now {
			also = "also "
		}
		text += fmt.Sprintf(". Pods use them on %s, and these nodes keep their node pod. Replace the PersistentVolumes, or %sset annotation %s=true on "+
			"ClusterCSIDriver %s: then these pods lose their volumes when they start again", shortenNodes(held), also, AcceptRefusedAnnotation, m.Driver.Name)
	}
	return text
}

// mostVolumes is the largest number of volumes in a message.
const mostVolumes = 5

// shortenNodes shortens a list of nodes. The command "oc storage migrate plan" lists all nodes.
func shortenNodes(nodes []string) string {
	const most = 20
	text := status.ShortenTo(nodes, most)
	if len(nodes) > most {
		text += `, which "oc storage migrate plan" lists`
	}
	return text
}
