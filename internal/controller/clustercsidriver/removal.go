package clustercsidriver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// ForceRemovalAnnotation on the ClusterCSIDriver, with value "true", makes the operator remove the driver at once. The operator then ignores pods
// that use the driver, and objects that only the driver can delete.
const ForceRemovalAnnotation = "operator.openshift.io/force-driver-removal"

// removingReason is the reason of Progressing once a removal has begun. By this reason, a restarted operator knows that it must continue the removal.
const removingReason = "Removing"

const (
	// inUseReason is the reason of Progressing while pods or other objects block a removal. removedReason is the reason after the removal.
	inUseReason   = "VolumesInUse"
	removedReason = "Removed"
)

// removalInterval is the time between two checks whether deleted objects are gone. The operator also checks at each event.
const removalInterval = 10 * time.Second

// remove uninstalls the driver. It deletes the workloads first. After their pods have ended, it deletes everything else in reverse apply order, and
// last it drops the finalizers. It does not render, so a render error can't block the removal.
func (r *Reconciler) remove(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen) outcome {
	if done, err := r.alreadyRemoved(ctx, cr, found); err != nil || done {
		return r.removeCloudResources(ctx, cr, found, err)
	}
	begun, err := r.hasBegun(ctx, cr, found)
	if err != nil {
		return found.outcome(err)
	}
	if !begun {
		held, err := r.holdsRemoval(ctx, cr)
		if err != nil {
			// The operator can't tell what needs the driver, so the objects that blocked the removal before still block it.
			before := r.inUseBefore(cr)
			return outcome{seen: found, err: err, removal: removal{inUse: before.message, blocking: before.count}}
		}
		if held.message != "" {
			return r.blockRemoval(ctx, cr, found, held)
		}
	}
	r.inUse = inUse{}
	result, err := r.uninstall(ctx, cr, found)
	result.seen, result.err = found, err
	result.removal.removing = !result.removal.removed
	return result
}

// removeCloudResources removes the driver's resources in the cloud. It is the last step of a removal, after all objects in the cluster are gone. So a
// cloud that does not answer does not delay the deletion of these objects.
func (r *Reconciler) removeCloudResources(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen, err error) outcome {
	result := outcome{seen: found, err: err, removal: removal{removed: err == nil}}
	if err != nil || !r.asksForRemoval(cr) || r.Derived.CloudResources == nil {
		return result
	}
	inputs := ""
	if result.removal.left = r.Derived.Undo(found.live.credentials); result.removal.left != "" {
		// Keep polling the cloud until nothing is left there.
		if inputs, result.err = r.Derived.CloudInputs(ctx, found.live.credentials); result.err != nil {
			return result
		}
	}
	r.Derived.SetInputs(inputs)
	return result
}

// uninstall continues a removal that has begun.
func (r *Reconciler) uninstall(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen) (outcome, error) {
	// A removal does not call observe. So uninstall reads the leftovers of a migration here. An earlier process may have done this migration.
	remaining, err := r.Migration.Remaining(ctx, cr)
	if err != nil {
		return outcome{}, err
	}
	for _, step := range []func(context.Context, seen, migration.State) (apply.ChangeSet, error){r.removeWorkloads, r.removeRest} {
		left, err := step(ctx, found, remaining)
		if err != nil {
			return outcome{}, err
		}
		if len(left) == 0 {
			continue
		}
		pods, err := r.remainingPods(ctx)
		return outcome{
			changes: left, again: removalInterval,
			removal: removal{waiting: waitingFor(left, pods), remaining: len(left) + len(pods)},
		}, err
	}
	return r.release(ctx, cr)
}

// removeWorkloads deletes the workloads, the webhooks that rely on their pods, and the node pods that a migration left without an owner. It returns
// the objects that still exist.
func (r *Reconciler) removeWorkloads(ctx context.Context, found seen, remaining migration.State) (apply.ChangeSet, error) {
	left := r.applierOf(found).Remove(ctx, goesFirst)
	orphans, err := r.Migration.RemoveOrphans(ctx, remaining)
	return append(left, orphans...), err
}

// removeRest deletes everything else. It deletes objects outside the inventory first, and objects of the inventory last. Otherwise a restarted
// operator would miss objects outside the inventory, because it looks for them only while it owns an object of the inventory.
func (r *Reconciler) removeRest(ctx context.Context, found seen, remaining migration.State) (apply.ChangeSet, error) {
	empty, err := r.ownsNothing(ctx, found)
	if err != nil {
		return nil, err
	}
	if !empty {
		removed, err := r.Migration.RemoveLeftovers(ctx, remaining)
		removed = append(removed, r.applier.RemoveMade(ctx, r.Driver.Leases(r.Namespace))...)
		removed.Log(ctx)
		if err = errors.Join(err, removed.Err()); err != nil {
			return nil, err
		}
	}
	return r.applierOf(found).Remove(ctx, func(subject apply.Subject) bool { return !goesFirst(subject) }), nil
}

// goesFirst reports whether the operator removes an object together with the workloads. A fail-closed webhook must not outlive its pods.
func goesFirst(subject apply.Subject) bool {
	return subject.Group == appsv1.GroupName || subject.Group == admissionv1.GroupName
}

// release drops the finalizers, except the finalizers of another running operator of the same name.
func (r *Reconciler) release(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (outcome, error) {
	match, shared := r.isOurs, false
	if slices.ContainsFunc(cr.Finalizers, r.Driver.IsLegacy) {
		var err error
		if shared, err = r.Migration.NamesakeRuns(ctx); err != nil {
			return outcome{}, err
		}
	}
	if shared {
		match = func(finalizer string) bool { return finalizer == r.Driver.Finalizer() }
	}
	if err := r.dropFinalizers(ctx, cr, match); err != nil {
		return outcome{}, err
	}
	return outcome{removal: removal{removed: true, sharesStatus: shared}}, nil
}

// alreadyRemoved reports whether the ClusterCSIDriver has none of our finalizers, and the cache has no object of ours. It reads only the cache, so
// the operator sends no request for a removed driver.
func (r *Reconciler) alreadyRemoved(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen) (bool, error) {
	if slices.ContainsFunc(cr.Finalizers, r.isOurs) {
		return false, nil
	}
	return r.ownsNothing(ctx, found)
}

// ownsNothing reports whether the cache shows no owned object.
func (r *Reconciler) ownsNothing(ctx context.Context, found seen) (bool, error) {
	owned, err := r.applierOf(found).Owned(ctx)
	if err != nil {
		return false, fmt.Errorf("find the objects to remove: %w", err)
	}
	return len(owned) == 0, nil
}

// hasBegun reports whether the operator removes the driver without checking for users of volumes. The operator does so if the administrator forces
// the removal, or if the operator owns no object. It also does so if this removal has already begun to delete node pods, because stopping half way
// would help no user. A missing DaemonSet does not show that this removal has begun, because another client may have deleted the DaemonSet.
func (r *Reconciler) hasBegun(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen) (bool, error) {
	if cr.Annotations[ForceRemovalAnnotation] == "true" {
		return true, nil
	}
	empty, err := r.ownsNothing(ctx, found)
	if err != nil {
		return false, err
	}
	if empty && !r.applier.Mutations.Pending() {
		// The operator owns no object, for example because a predecessor still runs its own driver. So the removal can't disturb users of volumes.
		return true, nil
	}
	progressing := status.Find(cr.Status.Conditions, status.Progressing)
	if progressing != nil && progressing.Reason == removingReason {
		return true, nil
	}
	daemonSet := apply.Subject{
		GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		ObjectKey:        client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.DaemonSet},
	}
	live, err := r.applier.Find(ctx, daemonSet)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", daemonSet, err)
	}
	return live != nil && live.GetDeletionTimestamp() != nil, nil
}

// blockRemoval keeps reconciling the driver while pods or volumes need the driver. For an Unmanaged driver, it only reports.
func (r *Reconciler) blockRemoval(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen, held inUse) outcome {
	var kept outcome
	switch cr.Spec.ManagementState {
	case operatorv1.Managed, operatorv1.Removed, "":
		kept = r.apply(ctx, cr, found)
	default:
		kept = r.inspect(ctx, cr, found)
	}
	// The operator polls pods and volumes instead of watching them. A watch would use memory even without a removal.
	held.patience = r.inUse.patience
	kept.again = status.MinRequeue(kept.again, held.patience.Pause(r.Now(), strings.Join(held.names, " ")))
	r.inUse = held
	kept.removal.inUse, kept.removal.blocking = r.inUse.message, r.inUse.count
	return kept
}

// remainingPods lists the driver's pods with their nodes, sorted.
func (r *Reconciler) remainingPods(ctx context.Context) ([]string, error) {
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(r.Namespace)); err != nil {
		return nil, fmt.Errorf("list the driver's pods: %w", err)
	}
	var nodes []string
	for _, pod := range pods.Items {
		nodes = append(nodes, pod.Name+" on "+pod.Spec.NodeName)
	}
	sort.Strings(nodes)
	return nodes, nil
}

// waitingFor returns a message that names the remaining objects with their finalizers, and the remaining pods.
func waitingFor(left apply.ChangeSet, pods []string) string {
	text := "waiting for the removal of " + status.Shorten(left.Names("held by"))
	if len(pods) > 0 {
		text += "; remaining pods: " + status.Shorten(pods)
	}
	return text
}
