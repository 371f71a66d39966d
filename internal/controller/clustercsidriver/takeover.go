package clustercsidriver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/nodes"
)

// AcceptRemountAnnotation on the ClusterCSIDriver, with the value "true", lets node pods of a predecessor be replaced although
// pods on their nodes use volumes. The mounts of these pods hang until the pods are started anew.
const AcceptRemountAnnotation = "operator.openshift.io/accept-remount"

// takingOverReason is the reason of the condition Progressing of the nodes while pods of a predecessor are replaced.
const takingOverReason = "TakingOver"

// leastInterval is how often node pods are looked up at most in a migration, and takeoverInterval how soon again for what an event may
// not tell.
const (
	leastInterval    = time.Second
	takeoverInterval = 15 * time.Second
)

// takeover is how far the replacement of a predecessor's node pods is.
type takeover struct {
	// message is empty when there is nothing to replace. Serving is the number of nodes with a plugin that is ready, whosever.
	message string
	serving int
	// stalled means that nothing more is replaced because too many nodes are without a plugin.
	stalled bool
	changes apply.ChangeSet
	again   time.Duration
}

// oldPods are the node pods of predecessors as the cache has them.
func (r *Reconciler) oldPods(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := r.nodePods(ctx, r.Client, r.Driver.IsOld)
	return append(pods, r.elsewhere.nodes...), err
}

// nodePods are the driver's pods on the nodes, whosever, that match, in the operator's namespace.
func (r *Reconciler) nodePods(ctx context.Context, reader client.Reader, match func(*corev1.Pod) bool) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	isNodePod := client.MatchingLabelsSelector{Selector: withApp(r.Driver.NodeApps())}
	if err := reader.List(ctx, pods, client.InNamespace(r.Namespace), isNodePod); err != nil {
		return nil, fmt.Errorf("list the node pods: %w", err)
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !match(&pod) }), nil
}

// takeOver replaces old, the node pods of predecessors, as far as nobody notices, and cleans up what predecessors have left. What was
// applied before, changes, must be in order, or the new pods could not work.
func (r *Reconciler) takeOver(
	ctx context.Context, cr *operatorv1.ClusterCSIDriver, old []corev1.Pod, changes apply.ChangeSet, waits held,
) (takeover, error) {
	result, err := r.takeOverNodes(ctx, cr, old, changes, waits)
	cleared, failure := r.clearBindings(ctx, changes, waits)
	result.changes = append(result.changes, cleared...)
	return result, errors.Join(err, failure)
}

func (r *Reconciler) takeOverNodes(
	ctx context.Context, cr *operatorv1.ClusterCSIDriver, old []corev1.Pod, changes apply.ChangeSet, waits held,
) (takeover, error) {
	cleared, err := r.clearUp(ctx, len(old) == 0)
	if err != nil || len(old) == 0 {
		return takeover{changes: cleared}, err
	}
	_, daemonSet, err := r.newestWorkloads(ctx)
	if err != nil {
		return takeover{}, err
	}
	if lacks := lacking(changes, waits, daemonSet); lacks != "" {
		return takeover{
			message: fmt.Sprintf("%d node pods of the former operator stay: %s", len(old), lacks),
			serving: len(slices.DeleteFunc(old, func(pod corev1.Pod) bool { return !nodes.Serves(&pod) })), again: takeoverInterval,
		}, nil
	}
	orphaned, err := r.orphan(ctx)
	if err != nil || len(orphaned.With(apply.Failed)) > 0 {
		// Its DaemonSet would start a pod anew.
		message := fmt.Sprintf("%d node pods of the former operator stay until their DaemonSet can be deleted", len(old))
		return takeover{changes: orphaned, message: message}, err
	}
	result, err := r.replacePods(ctx, cr, daemonSet)
	result.changes = append(orphaned, result.changes...)
	return result, err
}

// lacking says what is not there yet that new node pods need; empty if nothing is. A pod that is deleted before that would come
// back as it was, or not at all.
func lacking(changes apply.ChangeSet, waits held, daemonSet *appsv1.DaemonSet) string {
	needed := []string{"DaemonSet", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "CSIDriver"}
	for _, change := range changes.With(apply.Failed, apply.Terminating) {
		if slices.Contains(needed, change.Subject.Kind) {
			return fmt.Sprintf("the new ones need %s, which %s", change.Subject, change.Action)
		}
	}
	switch {
	case waits[driver.Node] != "":
		return waits[driver.Node]
	case daemonSet == nil || daemonSet.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType ||
		daemonSet.Status.ObservedGeneration < daemonSet.Generation:
		return "waiting for Kubernetes to see the changed DaemonSet"
	default:
		return ""
	}
}

// clearUp deletes what only the pods of predecessors need, when the last of them has gone. Before that it takes off what would
// let the garbage collector delete it.
func (r *Reconciler) clearUp(ctx context.Context, last bool) (apply.ChangeSet, error) {
	var changes apply.ChangeSet
	if err := r.unmarkClass(ctx); err != nil {
		return nil, err
	}
	for _, predecessor := range r.Predecessors {
		left, err := predecessor.leftovers(ctx)
		if err != nil {
			return nil, err
		}
		for _, object := range left {
			_, isAccount := object.(*corev1.ServiceAccount)
			switch {
			case !last && isAccount:
				// Pods that run need their account, but not what they were admitted by.
				if err := r.applier.DropOwners(ctx, object); err != nil {
					return nil, fmt.Errorf("ServiceAccount %s: %w", object.GetName(), err)
				}
			case last && object.GetDeletionTimestamp() == nil:
				changes = append(changes, apply.Delete(ctx, r.Client, object))
			}
		}
	}
	if !last {
		return changes, nil
	}
	orphaned, err := r.orphan(ctx)
	changes = append(changes, orphaned...)
	if err != nil {
		return changes, err
	}
	cleared, err := r.clearElsewhere(ctx)
	return append(changes, cleared...), err
}

// unmarkClass takes the marks of a former owner off the StorageClass, also if the user looks after it: it would go with them.
func (r *Reconciler) unmarkClass(ctx context.Context) error {
	if r.Driver.StorageClass == "" {
		return nil
	}
	class := &storagev1.StorageClass{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: r.Driver.StorageClass}, class)
	if err == nil {
		err = r.applier.DropMarks(ctx, class)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("StorageClass %s: %w", r.Driver.StorageClass, err)
	}
	return nil
}

// orphan deletes DaemonSets that have another name than ours, with their history, and leaves their pods running: nobody would
// make them anew.
func (r *Reconciler) orphan(ctx context.Context) (apply.ChangeSet, error) {
	renamed, err := r.renamed(ctx)
	if err != nil {
		return nil, err
	}
	var changes apply.ChangeSet
	for i := range renamed {
		history, err := r.history(ctx, &renamed[i])
		if err != nil {
			return nil, err
		}
		changes = append(changes, apply.Delete(ctx, r.Client, &renamed[i], client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		for j := range history {
			changes = append(changes, apply.Delete(ctx, r.Client, &history[j]))
		}
	}
	return changes, nil
}

// renamed are DaemonSets of predecessors beside ours that are not being deleted: those in our namespace with another name than ours, and
// those in namespaces of their own.
func (r *Reconciler) renamed(ctx context.Context) ([]appsv1.DaemonSet, error) {
	found := slices.DeleteFunc(slices.Clone(r.elsewhere.daemonSets), func(daemonSet appsv1.DaemonSet) bool {
		return daemonSet.DeletionTimestamp != nil
	})
	for _, predecessor := range r.Predecessors {
		daemonSets, err := predecessor.daemonSets(ctx)
		if err != nil {
			return nil, err
		}
		for _, daemonSet := range daemonSets {
			if daemonSet.Name != r.Driver.DaemonSet && daemonSet.Namespace == r.Namespace && daemonSet.DeletionTimestamp == nil {
				found = append(found, daemonSet)
			}
		}
	}
	return found, nil
}

// history are the revisions of a DaemonSet, which would stay like its pods.
func (r *Reconciler) history(ctx context.Context, daemonSet *appsv1.DaemonSet) ([]appsv1.ControllerRevision, error) {
	revisions := &appsv1.ControllerRevisionList{}
	if err := r.Live.List(ctx, revisions, client.InNamespace(daemonSet.Namespace), client.MatchingLabels{"app": daemonSet.Name}); err != nil {
		return nil, fmt.Errorf("list the revisions of DaemonSet %s: %w", daemonSet.Name, err)
	}
	return slices.DeleteFunc(revisions.Items, func(revision appsv1.ControllerRevision) bool {
		return !metav1.IsControlledBy(&revision, daemonSet)
	}), nil
}

// tellOld says, while nobody has asked for the driver, what could be taken over.
func (r *Reconciler) tellOld(ctx context.Context) error {
	for _, predecessor := range r.Predecessors {
		daemonSets, err := predecessor.daemonSets(ctx)
		if err != nil {
			return err
		}
		for _, daemonSet := range daemonSets {
			if !r.told[daemonSet.UID] && daemonSet.DeletionTimestamp == nil {
				r.told[daemonSet.UID] = true
				r.Events.Eventf(&daemonSet, nil, corev1.EventTypeNormal, eventCreateCR, "Reconcile",
					"this DaemonSet of %s goes on running; to let %s take it over without a pause, create ClusterCSIDriver %s",
					predecessor.Title, r.Driver.Operator, r.Driver.Name)
			}
		}
	}
	return nil
}
