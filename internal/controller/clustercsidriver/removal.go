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
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// ForceRemovalAnnotation on the ClusterCSIDriver, with the value "true", removes the driver although pods use it.
const ForceRemovalAnnotation = "operator.openshift.io/force-driver-removal"

// removingReason is the reason of the condition Progressing once a removal has begun. It is also how the next operator
// knows, should this one be killed.
const removingReason = "Removing"

const (
	// inUseReason is the reason of Progressing while pods hold up a removal, removedReason that of a removed driver.
	inUseReason   = "VolumesInUse"
	removedReason = "Removed"
)

// removalInterval is how soon a removal looks again for what it has deleted, should no event come.
const removalInterval = 10 * time.Second

// remove uninstalls the driver: first its workloads, then, when their pods have gone, everything else in reverse order
// of applying, and at last the finalizers. It needs no rendering, so that nothing which fails there can hold it up.
func (r *Reconciler) remove(ctx context.Context, cr *operatorv1.ClusterCSIDriver) outcome {
	found, err := r.observeRemoval(ctx)
	if err != nil {
		return found.outcome(err)
	}
	if done, err := r.alreadyRemoved(ctx, cr, found); err != nil || done {
		return r.undone(ctx, cr, found, err)
	}
	begun, err := r.begun(ctx, cr, found)
	if err != nil {
		return found.outcome(err)
	}
	if !begun {
		users, err := volume.Users(ctx, r.Live, r.Driver.Name)
		if err != nil {
			// As far as is known, the same pods use it.
			return outcome{seen: found, err: err, removal: removal{inUse: r.inUse.message, blocking: r.inUse.pods}}
		}
		if len(users) > 0 {
			return r.protect(ctx, cr, heldByPods(cr, users))
		}
		volumes, err := r.volumes(ctx, cr)
		if err != nil {
			return found.outcome(err)
		}
		if len(volumes) > 0 {
			return r.protect(ctx, cr, heldByVolumes(cr, volumes))
		}
	}
	r.inUse = inUse{}
	result, err := r.uninstall(ctx, cr, found)
	result.seen, result.err = found, err
	result.removal.removing = !result.removal.removed
	return result
}

// observeRemoval reads what there is of the driver, and which objects it can have. What is about to be deleted is read right before that.
func (r *Reconciler) observeRemoval(ctx context.Context) (seen, error) {
	found, err := r.observeLive(ctx)
	if err != nil {
		return found, err
	}
	var classes []driver.Class
	if r.Driver.CloudClasses != nil {
		classes, err = r.classes(ctx)
	}
	found.inventory = r.inventory(classes)
	return found, err
}

// undone is the end of a removal: nothing of the driver is left in the cluster. What was made in the cloud goes afterwards, so that a cloud that
// does not answer holds up nothing.
func (r *Reconciler) undone(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen, err error) outcome {
	result := outcome{seen: found, err: err, removal: removal{removed: err == nil}}
	if err != nil || !r.asksForRemoval(cr) || r.Derived.CloudResources == nil {
		return result
	}
	inputs := ""
	if result.removal.left = r.Derived.Undo(found.live.credentials); result.removal.left != "" {
		// The cloud is asked for as long as something is left there.
		if inputs, result.err = r.Derived.CloudInputs(ctx, found.live.credentials); result.err != nil {
			return result
		}
	}
	r.Derived.Follow(inputs)
	return result
}

// uninstall goes on with a removal that has begun.
func (r *Reconciler) uninstall(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen) (outcome, error) {
	// An operator before this process may have gone on with what predecessors have left, and somebody may have changed it since.
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
		pods, err := r.leaving(ctx)
		return outcome{
			changes: left, again: removalInterval,
			removal: removal{waiting: waitingFor(left, pods), remaining: len(left) + len(pods)},
		}, err
	}
	return r.release(ctx, cr)
}

// removeWorkloads deletes the workloads with what relies on their pods, and the node pods that a migration has left without one. It returns what
// is still there.
func (r *Reconciler) removeWorkloads(ctx context.Context, found seen, remaining migration.State) (apply.ChangeSet, error) {
	left := r.applierOf(found).Remove(ctx, goesFirst)
	orphans, err := r.Migration.RemoveOrphans(ctx, remaining)
	return append(left, orphans...), err
}

// removeRest deletes all else. What is not in the inventory goes first: as long as anything of ours is left, the next operator looks for it.
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

// goesFirst tells whether something is removed with the workloads: a webhook that fails closed must not outlive its pods.
func goesFirst(subject apply.Subject) bool {
	return subject.Group == appsv1.GroupName || subject.Group == admissionv1.GroupName
}

// release drops the finalizers. Those of another operator of the same name are its own to drop while it runs.
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

// alreadyRemoved answers from the cache, so that a ClusterCSIDriver in state Removed costs no request. Without our
// finalizer there is nothing to wait for; what the cache still shows is removed all the same.
func (r *Reconciler) alreadyRemoved(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen) (bool, error) {
	if slices.ContainsFunc(cr.Finalizers, r.isOurs) {
		return false, nil
	}
	return r.ownsNothing(ctx, found)
}

// ownsNothing reports whether the cache has no object of the driver that is ours.
func (r *Reconciler) ownsNothing(ctx context.Context, found seen) (bool, error) {
	owned, err := r.applierOf(found).Owned(ctx)
	if err != nil {
		return false, fmt.Errorf("look for what is to be removed: %w", err)
	}
	return len(owned) == 0, nil
}

// begun reports whether a removal may go on without another look at the pods: because an administrator wants it so, or
// because the node pods are being deleted already and to stop half way would help nobody. That somebody else has deleted
// the DaemonSet is no reason.
func (r *Reconciler) begun(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen) (bool, error) {
	if cr.Annotations[ForceRemovalAnnotation] == "true" {
		return true, nil
	}
	empty, err := r.ownsNothing(ctx, found)
	if err != nil {
		return false, err
	}
	if empty && !r.applier.Mutations.Pending() {
		// Nothing was installed, because a predecessor still runs for instance: its driver stays.
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

// volumes are the PersistentVolumes of a driver that is part of the cluster: who removes that may not know of them. Of a driver that was
// installed by an administrator, they are the administrator's affair.
func (r *Reconciler) volumes(ctx context.Context, cr *operatorv1.ClusterCSIDriver) ([]string, error) {
	if !r.Driver.RemovedByState || cr.Spec.ManagementState != operatorv1.Removed {
		return nil, nil
	}
	names, err := volume.OfDriver(ctx, r.Live, r.Driver.Name)
	sort.Strings(names)
	return names, err
}

// heldByPods says which pods hold up a removal.
func heldByPods(cr *operatorv1.ClusterCSIDriver, users []volume.User) inUse {
	pods := volume.Pods(users)
	return inUse{pods: len(pods), names: pods, message: fmt.Sprintf("The driver stays until no pod uses its volumes, because pods "+
		"would hang without it. Pods that do (%d): %s. Delete them, or set annotation %s=true on ClusterCSIDriver %s to remove the driver all the same",
		len(pods), status.Shorten(pods), ForceRemovalAnnotation, cr.Name)}
}

// heldByVolumes says which PersistentVolumes hold up a removal.
func heldByVolumes(cr *operatorv1.ClusterCSIDriver, volumes []string) inUse {
	return inUse{names: volumes, message: fmt.Sprintf("The driver stays until it has no PersistentVolumes, because nothing would attach or delete them "+
		"without it. There are %d: %s. Delete them, or set annotation %s=true on ClusterCSIDriver %s to remove the driver all the same",
		len(volumes), status.Shorten(volumes), ForceRemovalAnnotation, cr.Name)}
}

// protect keeps the driver as it is while something needs it, and says what. Only an unmanaged driver is not kept up.
func (r *Reconciler) protect(ctx context.Context, cr *operatorv1.ClusterCSIDriver, held inUse) outcome {
	var kept outcome
	switch cr.Spec.ManagementState {
	case operatorv1.Managed, operatorv1.Removed, "":
		kept = r.apply(ctx, cr)
	default:
		kept = r.look(ctx, cr)
	}
	// Neither is watched, so that they cost nothing while no removal waits.
	held.patience = r.inUse.patience
	kept.again = status.MinRequeue(kept.again, held.patience.Pause(r.Now(), strings.Join(held.names, " ")))
	r.inUse = held
	kept.removal.inUse, kept.removal.blocking = r.inUse.message, r.inUse.pods
	return kept
}

// inUse remembers what holds up a removal: how many pods, or else PersistentVolumes.
type inUse struct {
	pods     int
	names    []string
	message  string
	patience status.Patience
}

// leaving names the nodes on which pods of the driver are still there, sorted.
func (r *Reconciler) leaving(ctx context.Context) ([]string, error) {
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

// waitingFor names what has still to go, the finalizers that hold it, and the pods that are left.
func waitingFor(left apply.ChangeSet, pods []string) string {
	text := "waiting for the end of " + status.Shorten(left.Names("held by"))
	if len(pods) > 0 {
		text += "; pods that are left: " + status.Shorten(pods)
	}
	return text
}
