package clustercsidriver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/status"
)

// fleet is the plugins of all nodes, and who uses them.
type fleet struct {
	// desired is the number of nodes that are to have a plugin.
	desired int
	// old is the pod of a predecessor on a node that is not being deleted.
	old map[string]*corev1.Pod
	// serving are the nodes with a plugin that is ready, occupied those with any pod of a plugin.
	serving, occupied map[string]bool
	// late are the nodes that wait for the new pod, with the reason; down those that are not ready themselves.
	late []string
	down map[string]bool
	// users are the pods that use volumes, by node.
	users map[string][]string
}

// replacePods deletes pods of predecessors, so that ours follow, where no pod uses a volume: at most a tenth of the nodes, but
// at least one, is without a plugin at a time. All is read from the cluster, because a cache that lags would let too many go.
func (r *Reconciler) replacePods(ctx context.Context, cr *operatorv1.ClusterCSIDriver, desired int32) (takeover, error) {
	nodes, claims, err := r.muster(ctx, int(desired))
	if err != nil {
		return takeover{}, err
	}
	var deleted apply.ChangeSet
	for _, node := range nodes.next(cr.Annotations[AcceptRemountAnnotation] == "true") {
		if len(nodes.users[node]) == 0 {
			// A pod may have come since, which would lose its mounts.
			late, err := usersOf(ctx, r.Live, claims, client.MatchingFields{"spec.nodeName": node})
			if err != nil {
				return takeover{}, err
			}
			if len(late) > 0 {
				continue
			}
		}
		deleted = append(deleted, r.discard(ctx, nodes.old[node]))
	}
	result := takeover{
		message: nodes.message(cr.Name), serving: len(nodes.serving), changes: deleted,
		stalled: len(deleted) == 0 && nodes.busy() >= nodes.most(), again: takeoverInterval,
	}
	if len(deleted) == 0 && nodes.busy() == 0 {
		// That pods end may take days.
		result.again = patientInterval
	}
	return result, nil
}

// muster reads all plugins and all users of volumes, and the claims of these. Desired is how many nodes are to have a plugin.
func (r *Reconciler) muster(ctx context.Context, desired int) (fleet, map[client.ObjectKey]bool, error) {
	pods, err := r.nodePods(ctx, r.Live, func(*corev1.Pod) bool { return true })
	if err != nil {
		return fleet{}, nil, err
	}
	claims, err := boundClaims(ctx, r.Live, r.Driver.Name)
	if err != nil {
		return fleet{}, nil, err
	}
	users, err := usersOf(ctx, r.Live, claims)
	if err != nil {
		return fleet{}, nil, err
	}
	down, err := r.down(ctx, pods)
	return r.sorted(pods, users, down, desired), claims, err
}

// down are the nodes that are not ready, of those with a plugin that is not. A pod that is deleted there does not go, and
// another one does not come.
func (r *Reconciler) down(ctx context.Context, pods []corev1.Pod) (map[string]bool, error) {
	found := map[string]bool{}
	for i := range pods {
		name := pods[i].Spec.NodeName
		if _, known := found[name]; name == "" || known || serves(&pods[i]) {
			continue
		}
		node := &corev1.Node{}
		if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, node); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read Node %s: %w", name, err)
		}
		found[name] = !slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
			return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		})
	}
	return found, nil
}

// sorted sorts pods by their nodes. What is on nodes that are down is left out.
func (r *Reconciler) sorted(pods []corev1.Pod, users []user, down map[string]bool, desired int) fleet {
	nodes := fleet{
		desired: desired, down: map[string]bool{},
		old: map[string]*corev1.Pod{}, serving: map[string]bool{}, occupied: map[string]bool{}, users: map[string][]string{},
	}
	late := map[string]string{}
	for i := range pods {
		pod := &pods[i]
		node, old := pod.Spec.NodeName, r.Driver.IsOld(pod)
		switch {
		case node == "":
			// It waits for the old one to go.
			continue
		case down[node]:
			nodes.down[node] = true
			continue
		case serves(pod):
			nodes.serving[node] = true
		case pod.DeletionTimestamp != nil:
			late[node] = "Terminating"
		case !old:
			late[node] = status.PodProblem(pod)
		}
		nodes.occupied[node] = true
		if old && pod.DeletionTimestamp == nil {
			nodes.old[node] = pod
		}
	}
	for node, reason := range late {
		if !nodes.serving[node] {
			nodes.late = append(nodes.late, fmt.Sprintf("%s (%s)", node, reason))
		}
	}
	slices.Sort(nodes.late)
	// They are sorted.
	for _, user := range users {
		nodes.users[user.node] = append(nodes.users[user.node], user.pod)
	}
	return nodes
}

// most is how many nodes may be without a plugin at a time.
func (f fleet) most() int { return max(1, f.nodes()/10) }

// nodes is how many there are that are not down; some may have a plugin although they need none.
func (f fleet) nodes() int { return max(f.desired-len(f.down), len(f.occupied)) }

// missing is how many nodes are without a plugin that is ready.
func (f fleet) missing() int { return f.nodes() - len(f.serving) }

// busy is how many of these have no old pod either that could be replaced: they wait for the new one.
func (f fleet) busy() int {
	broken := 0
	for node := range f.old {
		if !f.serving[node] {
			broken++
		}
	}
	return f.missing() - broken
}

// order sorts the nodes with an old pod: those in use last, and before them the broken ones first, as nobody loses anything
// there.
func (f fleet) order() []string {
	rank := func(node string) string { return fmt.Sprint(len(f.users[node]) > 0, f.serving[node], node) }
	return slices.SortedFunc(maps.Keys(f.old), func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
}

// next are the nodes whose old pod is to be deleted now, those in use only if that is accepted.
func (f fleet) next(accepted bool) []string {
	var chosen []string
	busy, missing := f.busy(), f.missing()
	for _, node := range f.order() {
		if busy >= f.most() || (f.serving[node] && missing >= f.most()) || (len(f.users[node]) > 0 && !accepted) {
			continue
		}
		chosen = append(chosen, node)
		busy++
		if f.serving[node] {
			missing++
		}
	}
	return chosen
}

// message tells how far the take-over is, and what it waits for.
func (f fleet) message(name string) string {
	text := fmt.Sprintf("%d of %d nodes still have a pod of the former operator", len(f.old), f.nodes())
	var waiting []string
	for _, node := range f.order() {
		if len(f.users[node]) > 0 {
			waiting = append(waiting, node+" ("+status.Shorten(f.users[node])+")")
		}
	}
	if len(waiting) > 0 {
		text += fmt.Sprintf("; on %d of them pods use volumes, and their mounts would hang: %s. Drain these nodes, end the pods, or set annotation "+
			"%s=true on ClusterCSIDriver %s and start the pods anew afterwards", len(waiting), status.Shorten(waiting), AcceptRemountAnnotation, name)
	}
	if len(f.late) > 0 {
		text += "; waiting for the new pods of " + status.Shorten(f.late)
	}
	if len(f.down) > 0 {
		text += "; nodes that are not ready are left alone: " + status.Shorten(slices.Sorted(maps.Keys(f.down)))
	}
	return text
}
