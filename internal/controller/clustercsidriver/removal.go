package clustercsidriver

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
)

// ForceRemovalAnnotation on the ClusterCSIDriver, with the value "true", removes the driver although pods use it.
const ForceRemovalAnnotation = "operator.openshift.io/force-driver-removal"

const (
	// inUseInterval is how often pods are looked up while a removal waits for them. Nothing is watched for it, so that
	// it costs nothing while no removal waits.
	inUseInterval = 15 * time.Second
	// removalInterval is how soon a removal looks again for what it has deleted, should no event come.
	removalInterval = 10 * time.Second
)

// remove takes the driver away: first its workloads, then, when their pods have gone, everything else in reverse order
// of applying, and at last the finalizers. It needs no rendering, so that nothing which fails there can hold it up.
func (r *Reconciler) remove(ctx context.Context, cr *operatorv1.ClusterCSIDriver) outcome {
	if done, err := r.alreadyRemoved(ctx, cr); err != nil || done {
		return outcome{err: err, removed: err == nil}
	}
	if waiting, err := r.waitForPods(ctx, cr); err != nil || waiting != "" {
		return outcome{err: err, waiting: waiting, again: inUseInterval}
	}
	workloads, rest := r.split()
	for _, kinds := range [][]apply.Kind{workloads, rest} {
		if left := r.applier.Remove(ctx, kinds); len(left) > 0 {
			return outcome{changes: left, waiting: waitingFor(left), again: removalInterval}
		}
	}
	if err := r.dropFinalizers(ctx, cr); err != nil {
		return outcome{err: err}
	}
	return outcome{removed: true}
}

// alreadyRemoved answers from the cache, so that a ClusterCSIDriver in state Removed costs no request. Without our
// finalizer there is nothing to wait for; what the cache still shows is removed all the same.
func (r *Reconciler) alreadyRemoved(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (bool, error) {
	for _, finalizer := range cr.Finalizers {
		if r.isOurs(finalizer) {
			return false, nil
		}
	}
	owned, err := r.applier.Owned(ctx)
	return len(owned) == 0, err
}

// waitForPods returns a sentence about the pods that use volumes of the driver, or "" if the removal may go on.
func (r *Reconciler) waitForPods(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (string, error) {
	if cr.Annotations[ForceRemovalAnnotation] == "true" {
		return "", nil
	}
	daemonSet := &appsv1.DaemonSet{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.DaemonSet}, daemonSet)
	if apierrors.IsNotFound(err) || (err == nil && daemonSet.DeletionTimestamp != nil) {
		// The driver is going already; to stop half way would help nobody.
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read DaemonSet %s: %w", r.Driver.DaemonSet, err)
	}
	pods, err := podsInUse(ctx, r.Live, r.Driver.Name)
	if err != nil || len(pods) == 0 {
		return "", err
	}
	return fmt.Sprintf("%d pods use volumes of %s and would hang without the driver: %s. Delete these pods, or set "+
		"annotation %s=true on ClusterCSIDriver %s to remove the driver all the same",
		len(pods), r.Driver.Name, shorten(pods), ForceRemovalAnnotation, cr.Name), nil
}

// split separates the workloads, which go first, from all other kinds.
func (r *Reconciler) split() (workloads, rest []apply.Kind) {
	for _, kind := range r.applier.Kinds {
		if kind.Group == appsv1.GroupName {
			workloads = append(workloads, kind)
		} else {
			rest = append(rest, kind)
		}
	}
	return workloads, rest
}

// waitingFor names what has still to go, and the finalizers that hold it.
func waitingFor(left apply.ChangeSet) string {
	var names []string
	for _, change := range left {
		name := change.Subject.String()
		if len(change.Finalizers) > 0 {
			name += " (held by " + strings.Join(change.Finalizers, ", ") + ")"
		}
		names = append(names, name)
	}
	sort.Strings(names)
	return "waiting for the end of " + shorten(names)
}

// shorten keeps a message readable: five names and the number of the others.
func shorten(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
