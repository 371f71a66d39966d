package storage

import (
	"context"
	"fmt"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

const (
	// volumesInterval is the least time between two lists of PersistentVolumes. This program does not watch PersistentVolumes.
	volumesInterval = time.Minute
	// removalInterval is how often a removal checks objects that this program does not watch.
	removalInterval = 5 * time.Second
	// removedReason is the reason that a driver's operator reports after it has removed the driver.
	removedReason = "Removed"
)

// removal is the progress of the removal of a driver.
type removal struct {
	// waits is true if the removal has not begun, because an administrator must act. message says what the removal waits for. Field "left" is the number
	// of objects that still exist.
	waits   bool
	reason  string
	message string
	left    int
	// done is true if no object is left.
	done bool
}

// volumes are the PersistentVolumes of a driver.
type volumes struct {
	names []string
	seen  time.Time
}

// remove uninstalls an unwanted driver step by step. Each step begins after the previous one is complete. The state of the cluster shows which step
// is next, so a restarted operator continues with that step. remove deletes the ClusterCSIDriver last.
func (r *Reconciler) remove(ctx context.Context, w *seen, done *result) {
	entry := done.entry
	if done.driver != nil && done.driver.Spec.ManagementState == operatorv1.Unmanaged {
		// The ClusterCSIDriver is Unmanaged, so the administrator decides.
		r.hold(ctx, w, done, unmanagedReason, fmt.Sprintf("%s is no longer needed, because %s, but ClusterCSIDriver %s is Unmanaged. Set its "+
			"spec.managementState to Managed to let the operator remove the driver. Or delete the driver's objects yourself, and then the ClusterCSIDriver",
			entry.Title, done.why, entry.Name))
		return
	}
	ready := !r.byOperator(w, done) || isRemoved(done.driver)
	// While the operator or a workload still exists, a new PersistentVolume can stop the removal. So this program lists the PersistentVolumes again
	// before the next deletion.
	fresh, err := r.spared(ctx, done)
	if err != nil {
		done.err = err
		return
	}
	found, err := r.volumesOf(ctx, entry.Name, ready && fresh)
	if err != nil {
		done.err = err
		return
	}
	if len(found.names) > 0 {
		done.again = status.MinRequeue(done.again, volumesInterval)
		r.hold(ctx, w, done, volumesReason, fmt.Sprintf(
			"%s is no longer needed, because %s, but it still has %d PersistentVolumes: %s. Delete them to let the operator remove the driver",
			entry.Title, done.why, len(found.names), status.Shorten(found.names)))
		return
	}
	if !ready {
		// The driver's operator must run to remove its driver. The ClusterCSIDriver reports the progress of the removal.
		r.run(ctx, w, done, string(w.platform()))
		done.removal = removal{left: 1, message: "waiting for Deployment " + entry.Operator + " to remove the driver: see ClusterCSIDriver " +
			entry.Name + progressOf(done.driver)}
		return
	}
	if done.driver != nil || done.deployment != nil {
		// The annotation shows that the ClusterCSIDriver is ours, and that the removal has begun. After the deletion of the driver's operator, no other
		// object would show that.
		if done.driver, err = r.ensure(ctx, entry, done.driver, done.why); err != nil {
			done.err = err
			return
		}
	}
	r.clear(ctx, w, done)
}

// hold keeps a driver running until an administrator acts.
func (r *Reconciler) hold(ctx context.Context, w *seen, done *result, reason, message string) {
	r.run(ctx, w, done, "")
	done.removal = removal{waits: true, reason: reason, message: message}
}

// spared reports whether the driver's operator or a workload of the driver still exists. As long as one exists, a new volume stops the removal.
func (r *Reconciler) spared(ctx context.Context, done *result) (bool, error) {
	if done.deployment != nil {
		return true, nil
	}
	for _, workload := range done.entry.Workloads {
		kind := appsv1.SchemeGroupVersion.WithKind(workload.Kind)
		found, err := r.find(ctx, kind, client.ObjectKey{Namespace: workload.Namespace, Name: workload.Name})
		switch {
		case err != nil:
			return false, fmt.Errorf("check whether %s %s/%s still exists: %w", workload.Kind, workload.Namespace, workload.Name, err)
		case found != nil:
			return true, nil
		}
	}
	return false, nil
}

// byOperator reports whether the driver's operator removes the driver. Only an operator of this repository removes its driver, and only after a
// change of the platform.
func (r *Reconciler) byOperator(w *seen, done *result) bool {
	return done.entry.Builtin && w.platform() != done.entry.Platform
}

// isRemoved reports whether an operator has reported the removal of its driver.
func isRemoved(driver *operatorv1.ClusterCSIDriver) bool {
	if driver == nil || driver.Status.Version != "" || driver.Annotations[openshift.NotWantedAnnotation] == "" {
		return false
	}
	removed := false
	for _, condition := range driver.Status.Conditions {
		if !strings.HasSuffix(condition.Type, status.Progressing) {
			continue
		}
		if condition.Status == operatorv1.ConditionTrue {
			return false
		}
		removed = removed || condition.Reason == removedReason
	}
	return removed
}

// progressOf returns the message of a ClusterCSIDriver's Progressing conditions.
func progressOf(driver *operatorv1.ClusterCSIDriver) string {
	if driver == nil {
		return ""
	}
	if message := status.UnionOf(status.Progressing, driver.Status.Conditions).Message(); message != "" {
		return ": " + message
	}
	return ""
}

// clear deletes objects in this order: the operator, the driver, the operator's other objects, and the ClusterCSIDriver. Usually the operator has
// already removed the driver.
func (r *Reconciler) clear(ctx context.Context, w *seen, done *result) {
	applier := r.applierOf(done.entry)
	done.again = status.MinRequeue(done.again, removalInterval)
	done.deployment = nil
	for _, step := range []struct {
		what   string
		delete func() apply.ChangeSet
	}{
		{"the operator", func() apply.ChangeSet {
			return applier.Remove(ctx, func(subject apply.Subject) bool { return subject.Kind == "Deployment" })
		}},
		{"the driver", func() apply.ChangeSet { return r.removeWorkloads(ctx, done) }},
		{"the operator's objects", func() apply.ChangeSet {
			return applier.Remove(ctx, func(apply.Subject) bool { return true })
		}},
		{"the ClusterCSIDriver", func() apply.ChangeSet { return r.removeDriver(ctx, w, done) }},
	} {
		changes := step.delete()
		done.changes = append(done.changes, changes...)
		if len(changes) > 0 {
			waiting := status.Shorten(changes.Names("finalizers"))
			message := fmt.Sprintf("removing %s of %s: waiting for %s", step.what, done.entry.Title, waiting)
			done.removal = removal{left: len(changes), message: message}
			return
		}
	}
	done.removal = removal{done: true}
}

// removeWorkloads deletes the workloads and the CSIDriver of a driver if they still exist. StorageClasses and RBAC stay.
func (r *Reconciler) removeWorkloads(ctx context.Context, done *result) apply.ChangeSet {
	var changes apply.ChangeSet
	for _, workload := range done.entry.Workloads {
		kind := appsv1.SchemeGroupVersion.WithKind(workload.Kind)
		changes = append(changes, r.delete(ctx, kind, client.ObjectKey{Namespace: workload.Namespace, Name: workload.Name})...)
	}
	if len(changes) > 0 {
		return changes
	}
	return r.delete(ctx, storagev1.SchemeGroupVersion.WithKind("CSIDriver"), client.ObjectKey{Name: done.entry.Name})
}

func (r *Reconciler) removeDriver(ctx context.Context, w *seen, done *result) apply.ChangeSet {
	changes := r.delete(ctx, openshift.ClusterCSIDriverKind(), client.ObjectKey{Name: done.entry.Name})
	if len(changes.With(apply.Deleted)) > 0 {
		r.emitRemoved(ctx, w, done)
	}
	return changes
}

// delete deletes one object by name. If the object does not exist, delete returns no change. Foreground deletion keeps a workload visible until its
// pods are gone.
func (r *Reconciler) delete(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) apply.ChangeSet {
	change := apply.Change{Subject: apply.Subject{GroupVersionKind: kind, ObjectKey: key}, Action: apply.Deleted}
	found, err := r.find(ctx, kind, key)
	switch {
	case err != nil:
		change.Action, change.Err = apply.Failed, err
		return apply.ChangeSet{change}
	case found == nil:
		return nil
	case found.DeletionTimestamp != nil:
		change.Action, change.Finalizers = apply.Terminating, found.Finalizers
		return apply.ChangeSet{change}
	}
	change = apply.Delete(ctx, r.Client, found, client.PropagationPolicy(metav1.DeletePropagationForeground))
	r.applier.Mutations.Evict(change.Subject)
	return apply.ChangeSet{change}
}

// find reads the metadata of one object live. It returns nil if the object is absent.
func (r *Reconciler) find(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err := r.Live.Get(ctx, key, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	}
	return found, nil
}

// volumesOf returns the PersistentVolumes of a driver. It lists them again only if the last list is older than volumesInterval. If fresh is true and
// the last list was empty, volumesOf lists them again at once.
func (r *Reconciler) volumesOf(ctx context.Context, driver string, fresh bool) (volumes, error) {
	known, seen := r.volumes[driver]
	if seen && (!fresh || len(known.names) > 0) && r.Now().Sub(known.seen) < volumesInterval {
		return known, nil
	}
	listed, err := volume.OfDriver(ctx, r.Live, driver)
	found := volumes{seen: r.Now(), names: listed.Names}
	if err != nil {
		return found, err
	}
	r.volumes[driver] = found
	return found, nil
}

// emitRemoved reports the removal. It also names the StorageClasses that an administrator must delete.
func (r *Reconciler) emitRemoved(ctx context.Context, w *seen, done *result) {
	note := fmt.Sprintf("driver %s is removed, because %s", done.entry.Name, done.why)
	if classes := w.classesOf(done.entry.Name); len(classes) > 0 {
		note += "; delete its remaining StorageClasses: " + status.Shorten(classes)
	}
	ctrl.LoggerFrom(ctx).Info(note)
	if w.storage != nil {
		r.Events.Eventf(w.storage, nil, corev1.EventTypeNormal, eventRemoved, action, "%s", status.Clip(note))
	}
}
