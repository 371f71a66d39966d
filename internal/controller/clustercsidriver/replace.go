package clustercsidriver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/nodes"
	"github.com/csi-operators/csi-operators/internal/status"
)

// loss says what pods lose with the plugin of their node, and what to do then.
type loss struct{ what, then string }

// lossOf is that of the volumes of a driver. The tunnels of file systems end with the plugin; disks stay mounted.
func (r *Reconciler) lossOf() loss {
	if len(r.Driver.OldNamespaces()) > 0 {
		return loss{what: "nothing is mounted or unmounted there between the old plugin and the new one"}
	}
	return loss{what: "their mounts would hang", then: " and start the pods anew afterwards"}
}

// replacePods deletes pods of predecessors, so that ours follow, where no pod uses a volume: at most a tenth of the nodes, but
// at least one, is without a plugin at a time. All is read from the cluster, because a cache that lags would let too many go.
func (r *Reconciler) replacePods(ctx context.Context, cr *operatorv1.ClusterCSIDriver, daemonSet *appsv1.DaemonSet) (takeover, error) {
	if wait := leastInterval - r.Now().Sub(r.surveyed); wait > 0 {
		// Each new pod wakes the controller up. What was found last still holds, for as long.
		last := r.lastTakeover
		last.again = status.Soonest(last.again, wait)
		return last, nil
	}
	fleet, err := r.survey(ctx, daemonSet, int(daemonSet.Status.DesiredNumberScheduled))
	if err != nil {
		return takeover{}, err
	}
	deleted, err := r.replacer.Replace(ctx, fleet, cr.Annotations[AcceptRemountAnnotation] == "true")
	if err != nil {
		return takeover{}, err
	}
	result := takeover{
		message: r.takeoverMessage(fleet, cr.Name), serving: len(fleet.Serving),
		stalled: len(deleted) == 0 && fleet.Busy() >= fleet.Most(),
	}
	// That pods end may take days.
	result.again = r.patience.pause(r.Now(), result.message)
	r.surveyed, r.lastTakeover = r.Now(), result
	result.changes = deleted
	return result, nil
}

// survey reads all plugins and all users of volumes. Desired is how many nodes are to have a plugin; the DaemonSet is nil if it
// is not ours yet.
func (r *Reconciler) survey(ctx context.Context, daemonSet *appsv1.DaemonSet, desired int) (nodes.Fleet, error) {
	pods, err := r.nodePods(ctx, r.Live, func(*corev1.Pod) bool { return true })
	if err != nil {
		return nodes.Fleet{}, err
	}
	for _, namespace := range r.Driver.OldNamespaces() {
		if !r.elsewhere.active(namespace) {
			continue
		}
		old, err := r.podsIn(ctx, namespace)
		if err != nil {
			return nodes.Fleet{}, err
		}
		pods = append(pods, old.nodes...)
	}
	return r.replacer.Survey(ctx, pods, daemonSet, desired)
}

// takeoverMessage tells how far the take-over is, and what it waits for.
func (r *Reconciler) takeoverMessage(f nodes.Fleet, name string) string {
	loss := r.lossOf()
	text := fmt.Sprintf("%d of %d nodes still have a pod of the former operator", len(f.Old), f.Count())
	var waiting []string
	for _, node := range f.Order() {
		if len(f.Users[node]) > 0 {
			waiting = append(waiting, node+" ("+status.Shorten(f.Users[node])+")")
		}
	}
	if len(waiting) > 0 {
		text += fmt.Sprintf("; on %d of them pods use volumes, and %s: %s. Drain these nodes, end the pods, or set annotation "+
			"%s=true on ClusterCSIDriver %s%s", len(waiting), loss.what, shortenNodes(waiting), AcceptRemountAnnotation, name, loss.then)
	}
	if without := f.Count() - len(f.Occupied) - len(f.Pending); without > 0 {
		text += fmt.Sprintf("; %d nodes have no pod yet: if that lasts, look at the events of the DaemonSet", without)
	}
	if len(f.Pending) > 0 {
		text += "; waiting for the new pods of " + status.Shorten(f.Pending)
	}
	if len(f.Down) > 0 {
		text += "; nodes that are not ready are left alone: " + status.Shorten(slices.Sorted(maps.Keys(f.Down)))
	}
	return text
}

// shortenNodes keeps a list of nodes within what people read. "adopt --dry-run" lists all.
func shortenNodes(nodes []string) string {
	const most = 20
	if len(nodes) <= most {
		return strings.Join(nodes, ", ")
	}
	return fmt.Sprintf("%s and %d more, which \"adopt --dry-run\" lists", strings.Join(nodes[:most], ", "), len(nodes)-most)
}
