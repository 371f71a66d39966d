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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/status"
	"github.com/csi-operators/csi-operators/internal/volume"
)

// fleet is the plugins of all nodes, and who uses them.
type fleet struct {
	// desired is the number of nodes that are to have a plugin.
	desired int
	// old is the pod of a predecessor on a node, and outdated one of ours that was made from a former version of the DaemonSet;
	// neither is being deleted. Homeless are old pods without a node.
	old, outdated map[string]*corev1.Pod
	homeless      []corev1.Pod
	// serving are the nodes with a plugin that is ready, occupied those with any pod of a plugin.
	serving, occupied map[string]bool
	// late are the nodes that wait for the new pod, with the reason; down those that are not ready themselves.
	late []string
	down map[string]bool
	// users are the pods that use volumes, by node.
	users map[string][]string
	// loss is what these lose.
	loss loss
}

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
	if wait := leastInterval - r.Now().Sub(r.mustered); wait > 0 {
		// Each new pod wakes the controller up. What was found last still holds, for as long.
		last := r.lastTakeover
		last.again = status.Soonest(last.again, wait)
		return last, nil
	}
	nodes, err := r.muster(ctx, daemonSet, int(daemonSet.Status.DesiredNumberScheduled))
	if err != nil {
		return takeover{}, err
	}
	deleted, err := r.deleteNext(ctx, nodes, cr.Annotations[AcceptRemountAnnotation] == "true")
	if err != nil {
		return takeover{}, err
	}
	result := takeover{
		message: nodes.message(cr.Name), serving: len(nodes.serving),
		stalled: len(deleted) == 0 && nodes.busy() >= nodes.most(),
	}
	// That pods end may take days.
	result.again = r.patience.pause(r.Now(), result.message)
	r.mustered, r.lastTakeover = r.Now(), result
	result.changes = deleted
	return result, nil
}

// surveyUsers are the pods that use volumes, as they were a moment ago. Each new node pod wakes the controller up, and a whole cluster is
// not read for each. Right before a node pod is deleted, its node is read again.
func (r *Reconciler) surveyUsers(ctx context.Context) ([]volume.User, error) {
	if r.Now().Sub(r.surveyed) < leastPause {
		return r.users, nil
	}
	users, err := volume.Users(ctx, r.Live, r.Driver.Name)
	if err != nil {
		return nil, err
	}
	r.users, r.surveyed = users, r.Now()
	return users, nil
}

// deleteNext deletes the pods that are next.
func (r *Reconciler) deleteNext(ctx context.Context, nodes fleet, accepted bool) (apply.ChangeSet, error) {
	var deleted apply.ChangeSet
	for i := range nodes.homeless {
		deleted = append(deleted, apply.Delete(ctx, r.Client, &nodes.homeless[i]))
	}
	next := nodes.next(accepted)
	if len(next) == 0 {
		return deleted, nil
	}
	// A pod may have come since, and its claim may be new, which would lose its mounts.
	claims, err := volume.BoundClaims(ctx, r.Live, r.Driver.Name)
	if err != nil {
		return deleted, err
	}
	for _, node := range next {
		pod := nodes.old[node]
		if pod == nil {
			deleted = append(deleted, apply.Delete(ctx, r.Client, nodes.outdated[node]))
			continue
		}
		if !accepted {
			late, err := volume.UsersIn(ctx, r.Live, claims, client.MatchingFields{"spec.nodeName": node})
			if err != nil {
				return deleted, err
			}
			if len(late) > 0 {
				continue
			}
		}
		deleted = append(deleted, apply.Delete(ctx, r.Client, pod))
	}
	return deleted, nil
}

// muster reads all plugins and all users of volumes. Desired is how many nodes are to have a plugin; the DaemonSet is nil if it
// is not ours yet.
func (r *Reconciler) muster(ctx context.Context, daemonSet *appsv1.DaemonSet, desired int) (fleet, error) {
	pods, err := r.nodePods(ctx, r.Live, func(*corev1.Pod) bool { return true })
	if err != nil {
		return fleet{}, err
	}
	for _, namespace := range r.Driver.OldNamespaces() {
		if !r.elsewhere.active(namespace) {
			continue
		}
		old, err := r.podsIn(ctx, namespace)
		if err != nil {
			return fleet{}, err
		}
		pods = append(pods, old.nodes...)
	}
	users, err := r.surveyUsers(ctx)
	if err != nil {
		return fleet{}, err
	}
	down, err := r.down(ctx, pods)
	nodes := r.sorted(pods, users, down, desired)
	nodes.outdated = r.outdated(pods, down, daemonSet)
	return nodes, err
}

// outdated are those of our pods, by node, that a former version of the DaemonSet was the template of. While pods of a predecessor wait,
// nobody else would replace them.
func (r *Reconciler) outdated(pods []corev1.Pod, down map[string]bool, daemonSet *appsv1.DaemonSet) map[string]*corev1.Pod {
	found := map[string]*corev1.Pod{}
	if daemonSet == nil {
		return found
	}
	// Kubernetes counts the templates in the annotation, and labels the pods with that number.
	generation := daemonSet.Annotations[appsv1.DeprecatedTemplateGeneration]
	for i := range pods {
		pod := &pods[i]
		if r.Driver.IsOld(pod) || down[pod.Spec.NodeName] {
			continue
		}
		made := pod.Labels["pod-template-generation"]
		if metav1.IsControlledBy(pod, daemonSet) && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && made != "" && made != generation {
			found[pod.Spec.NodeName] = pod
		}
	}
	return found
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
func (r *Reconciler) sorted(pods []corev1.Pod, users []volume.User, down map[string]bool, desired int) fleet {
	nodes := fleet{
		desired: desired, down: map[string]bool{}, loss: r.lossOf(),
		old: map[string]*corev1.Pod{}, serving: map[string]bool{}, occupied: map[string]bool{}, users: map[string][]string{},
	}
	late := map[string]string{}
	for i := range pods {
		pod := &pods[i]
		if down[pod.Spec.NodeName] {
			nodes.down[pod.Spec.NodeName] = true
			continue
		}
		nodes.place(pod, r.Driver.IsOld(pod), late)
	}
	for node, reason := range late {
		// Where an old pod is, the new one waits for that.
		if !nodes.serving[node] && nodes.old[node] == nil {
			nodes.late = append(nodes.late, fmt.Sprintf("%s (%s)", node, reason))
		}
	}
	slices.Sort(nodes.late)
	// They are sorted.
	for _, user := range users {
		nodes.users[user.Node] = append(nodes.users[user.Node], user.Pod)
	}
	return nodes
}

// place puts a pod to its node, and says why that waits, if it does.
func (f *fleet) place(pod *corev1.Pod, old bool, late map[string]string) {
	node := pod.Spec.NodeName
	switch {
	case node == "" && old:
		if pod.DeletionTimestamp == nil {
			f.homeless = append(f.homeless, *pod)
		}
		return
	case node == "":
		late[intended(pod)] = status.PodProblem(pod)
		return
	case serves(pod):
		f.serving[node] = true
	case pod.DeletionTimestamp != nil:
		late[node] = "Terminating"
	case !old:
		late[node] = status.PodProblem(pod)
	}
	f.occupied[node] = true
	if old && pod.DeletionTimestamp == nil {
		f.old[node] = pod
	}
}

// intended is the node that a pod of a DaemonSet is for, before it is scheduled.
func intended(pod *corev1.Pod) string {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
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

// next are the nodes whose pod is to be deleted now, those in use with an old pod only if that is accepted. Ours that are outdated
// come after all others; their state is on the host, so that the next one goes on with it.
func (f fleet) next(accepted bool) []string {
	var chosen []string
	busy, missing := f.busy(), f.missing()
	for _, node := range append(f.order(), slices.Sorted(maps.Keys(f.outdated))...) {
		if busy >= f.most() || (f.serving[node] && missing >= f.most()) || (f.old[node] != nil && len(f.users[node]) > 0 && !accepted) {
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
		text += fmt.Sprintf("; on %d of them pods use volumes, and %s: %s. Drain these nodes, end the pods, or set annotation "+
			"%s=true on ClusterCSIDriver %s%s", len(waiting), f.loss.what, shortenNodes(waiting), AcceptRemountAnnotation, name, f.loss.then)
	}
	if without := f.nodes() - len(f.occupied) - len(f.late); without > 0 {
		text += fmt.Sprintf("; %d nodes have no pod yet: if that lasts, look at the events of the DaemonSet", without)
	}
	if len(f.late) > 0 {
		text += "; waiting for the new pods of " + status.Shorten(f.late)
	}
	if len(f.down) > 0 {
		text += "; nodes that are not ready are left alone: " + status.Shorten(slices.Sorted(maps.Keys(f.down)))
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
