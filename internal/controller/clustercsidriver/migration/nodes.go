package migration

import (
	"context"
	"fmt"
	"maps"
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
	fleet, err := m.survey(ctx, daemonSet, nodes.Wanted(daemonSet))
	if err != nil {
		return Moved{}, err
	}
	deleted, err := m.replacer.Replace(ctx, fleet, state.accepted)
	if err != nil {
		return Moved{}, err
	}
	moved := Moved{
		Message: m.message(fleet), Serving: len(fleet.Serving),
		Stalled: len(deleted) == 0 && fleet.IsStalled(),
	}
	// That pods end may take days.
	moved.Again = m.patience.Pause(m.Now(), moved.Message)
	m.surveyed, m.lastMoved = m.Now(), moved
	moved.Changes = deleted
	return moved, nil
}

// survey reads all plugins and all users of volumes. Desired is how many nodes are to have a plugin; the DaemonSet is nil if it
// is not ours yet.
func (m *Migration) survey(ctx context.Context, daemonSet *appsv1.DaemonSet, desired int) (nodes.Fleet, error) {
	pods, err := m.nodePods(ctx, m.Live, func(*corev1.Pod) bool { return true })
	if err != nil {
		return nodes.Fleet{}, err
	}
	for _, namespace := range m.Driver.OldNamespaces() {
		if !m.active(namespace) {
			continue
		}
		old, err := m.podsIn(ctx, namespace)
		if err != nil {
			return nodes.Fleet{}, err
		}
		pods = append(pods, old.nodes...)
	}
	return m.replacer.Survey(ctx, pods, daemonSet, desired)
}

// message says how far the migration is, and what blocks it.
func (m *Migration) message(f nodes.Fleet) string {
	loss := m.lossOf()
	text := fmt.Sprintf("%d of %d nodes still have a pod of the predecessor", len(f.Old), f.Count())
	var waiting []string
	for _, node := range f.Order() {
		if len(f.Users[node]) > 0 {
			waiting = append(waiting, node+" ("+status.Shorten(f.Users[node])+")")
		}
	}
	if len(waiting) > 0 {
		text += fmt.Sprintf("; on %d of them pods use volumes, and %s: %s. Drain these nodes, end the pods, or set annotation "+
			"%s=true on ClusterCSIDriver %s%s", len(waiting), loss.what, shortenNodes(waiting), AcceptRemountAnnotation, m.Driver.Name, loss.then)
	}
	if len(f.Outdated) > 0 {
		text += fmt.Sprintf("; %d nodes have a pod of this operator that is outdated; those in use keep it until no pod of the predecessor is left",
			len(f.Outdated))
	}
	if without := f.Count() - len(f.Occupied) - len(f.Pending); without > 0 {
		text += fmt.Sprintf("; %d nodes have no pod yet: if that lasts, look at the events of the DaemonSet", without)
	}
	if len(f.Pending) > 0 {
		text += "; waiting for the new pods of " + status.Shorten(f.Pending)
		if f.Unproven && len(f.Old) > 0 {
			text += " before other nodes get one"
		}
	}
	if len(f.Down) > 0 {
		text += "; nodes that are not ready are left alone: " + status.Shorten(slices.Sorted(maps.Keys(f.Down)))
	}
	return text
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
