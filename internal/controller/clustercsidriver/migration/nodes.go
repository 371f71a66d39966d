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

// loss says what pods lose with the plugin of their node, and what to do then.
type loss struct{ what, then string }

// lossOf is that of the volumes of a driver. The tunnels of file systems end with the plugin; disks stay mounted.
func (m *Migration) lossOf() loss {
	if len(m.Driver.OldNamespaces()) > 0 {
		return loss{what: "nothing is mounted or unmounted there between the old plugin and the new one"}
	}
	return loss{what: "their mounts would hang", then: " and start the pods anew afterwards"}
}

// replacePods deletes pods of predecessors, so that ours follow, where no pod uses a volume: at most a tenth of the nodes, but
// at least one, is without a plugin at a time. All is read from the cluster, because a cache that lags would let too many go.
func (m *Migration) replacePods(ctx context.Context, state State, daemonSet *appsv1.DaemonSet) (Moved, error) {
	if wait := leastInterval - m.Now().Sub(m.surveyed); wait > 0 {
		// Each new pod wakes the controller up. What was found last still holds, for as long.
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
	// That pods end may take days.
	moved.Again = m.patience.Pause(m.Now(), moved.Message)
	m.surveyed, m.lastMoved = m.Now(), moved
	moved.Changes = deleted
	return moved, nil
}

// survey reads all plugins and all users of volumes. Desired is how many nodes are to have a plugin; the DaemonSet is nil if it
// is not ours yet.
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
	return m.updater.Survey(ctx, pods, daemonSet, desired, state.accepted)
}

// left are the nodes with a pod of a predecessor, in the order in which it is replaced.
func left(p nodes.Plan) []string {
	return slices.DeleteFunc(p.Waiting(), func(node string) bool { return p.Nodes[node].Old == nil })
}

// message says how far the migration is, and what blocks it.
func (m *Migration) message(p nodes.Plan) string {
	loss, old := m.lossOf(), left(p)
	text := fmt.Sprintf("%d of %d nodes still have a pod of the predecessor", len(old), p.Count())
	var inUse []string
	for _, node := range old {
		if p.Nodes[node].InUse() {
			inUse = append(inUse, p.UsersText(node))
		}
	}
	if len(inUse) > 0 {
		text += fmt.Sprintf("; on %d of them pods use volumes, and %s: %s. Drain these nodes, end the pods, or set annotation "+
			"%s=true on ClusterCSIDriver %s%s", len(inUse), loss.what, shortenNodes(inUse), AcceptRemountAnnotation, m.Driver.Name, loss.then)
	}
	if outdated := p.Number(func(n *nodes.Node) bool { return n.Outdated != nil && !n.Down }); outdated > 0 {
		text += fmt.Sprintf("; %d nodes have a pod of this operator that is outdated; those in use keep it until no pod of the predecessor is left",
			outdated)
	}
	pending := p.Problems(func(n *nodes.Node) bool { return n.Problem != "" && n.Old == nil })
	if without := p.Without() - len(pending); without > 0 {
		text += fmt.Sprintf("; %d nodes have no pod yet: if that lasts, look at the events of the DaemonSet", without)
	}
	if len(pending) > 0 {
		text += "; waiting for the new pods of " + status.Shorten(pending)
		if !p.Proven && len(old) > 0 {
			text += " before other nodes get one"
		}
	}
	return text + p.DownText()
}

// shortenNodes keeps a list of nodes within what people read. "oc storage migrate plan" lists all.
func shortenNodes(nodes []string) string {
	const most = 20
	text := status.ShortenTo(nodes, most)
	if len(nodes) > most {
		text += `, which "oc storage migrate plan" lists`
	}
	return text
}
