package sharedvolume

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/fair"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// VolumeReconciler deletes volumes whose SharedVolume and PVC no longer exist. When it starts, it checks all volumes, because the operator may have
// missed deletions while it was down. The data in EFS stays.
type VolumeReconciler struct {
	Client client.Client
	Live   client.Reader
	Others Others
}

// Reconcile deletes a volume if the operator is certain that nothing needs the volume.
func (r *VolumeReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	volume := &corev1.PersistentVolume{}
	there, err := get(ctx, r.Client, request.NamespacedName, volume)
	if err != nil || !there || volume.DeletionTimestamp != nil || !isReleased(volume) {
		return ctrl.Result{}, err
	}
	from, ours := originOf(volume)
	if !ours {
		return ctrl.Result{}, nil
	}
	if running, _, err := r.Others.running(ctx); err != nil || running != "" {
		return ctrl.Result{}, err
	}
	if needed, retry, err := r.isNeeded(ctx, from, volume); err != nil || needed {
		return status.Requeue(retry, err)
	}
	if err = r.seal(ctx, volume, from); err == nil {
		err = r.Client.Delete(ctx, volume, apply.AsRead(volume))
	}
	switch {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case apierrors.IsConflict(err):
		// Another client has changed the volume since the operator read it. The operator retries when the cache has the change.
		return ctrl.Result{RequeueAfter: lag}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("delete PersistentVolume %s of deleted SharedVolume %s/%s: %w",
			volume.Name, from.namespace, from.name, err)
	}
	ctrl.LoggerFrom(ctx).Info("deleted the volume of a deleted SharedVolume", "sharedVolume", from.namespace+"/"+from.name)
	return ctrl.Result{}, nil
}

// seal prevents the binding of an open volume during its deletion. The claimRef of such a volume has no UID. Kubernetes would bind the volume to any
// PVC of the name, even if another tenant has the namespace by now. So seal sets the UID of the SharedVolume, which no PVC can have.
func (r *VolumeReconciler) seal(ctx context.Context, volume *corev1.PersistentVolume, from origin) error {
	if !isOpen(volume) {
		return nil
	}
	fields := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"claimRef":{"kind":"PersistentVolumeClaim","apiVersion":"v1",`+
		`"namespace":%q,"name":%q,"uid":%q}}}`, volume.UID, volume.ResourceVersion, from.namespace, pvcName(from.name), from.uid)
	if err := r.Client.Patch(ctx, volume, client.RawPatch(types.MergePatchType, []byte(fields))); err != nil {
		return fmt.Errorf("prevent its binding: %w", err)
	}
	return nil
}

// isReleased reports whether no PVC is bound to the volume. Either Kubernetes released the volume, or the volume was never bound. isReleased returns
// false for a volume whose reclaim policy is not Retain.
func isReleased(volume *corev1.PersistentVolume) bool {
	ref := volume.Spec.ClaimRef
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		return false
	}
	switch volume.Status.Phase {
	case corev1.VolumeReleased:
		return ref != nil && ref.UID != ""
	case corev1.VolumeAvailable, corev1.VolumePending, "":
		return isOpen(volume)
	default:
		return false
	}
}

// isNeeded reports whether the SharedVolume or the PVC of a volume exists. It reads from the cache, and then from the API server. It also returns
// when to requeue.
func (r *VolumeReconciler) isNeeded(ctx context.Context, from origin, volume *corev1.PersistentVolume) (bool, time.Duration, error) {
	// The operator does not watch PVCs without our label, so the deletion of such a PVC causes no event.
	retries := map[client.Reader]time.Duration{r.Client: 0, r.Live: fair.LongestPause}
	for _, reader := range []client.Reader{r.Client, r.Live} {
		if exists, err := exists(ctx, reader, from); err != nil || exists {
			return exists, 0, err
		}
		if bound, err := r.hasPVC(ctx, reader, from, volume); err != nil || bound {
			return bound, retries[reader], err
		}
	}
	return false, 0, nil
}

// exists reports whether the SharedVolume of a volume exists.
func exists(ctx context.Context, reader client.Reader, from origin) (bool, error) {
	owner := &v1alpha1.SharedVolume{}
	there, err := get(ctx, reader, client.ObjectKey{Namespace: from.namespace, Name: from.name}, owner)
	return there && owner.UID == from.uid, err
}

// hasPVC reports whether the PVC of a volume exists. A volume that was never bound names its PVC without a UID. In that case, a pending PVC does not
// count. Such a PVC may belong to a new tenant of the namespace, who must not get the previous tenant's share.
func (r *VolumeReconciler) hasPVC(ctx context.Context, reader client.Reader, from origin, volume *corev1.PersistentVolume) (bool, error) {
	pvc, uid := &corev1.PersistentVolumeClaim{}, types.UID("")
	if ref := volume.Spec.ClaimRef; ref != nil {
		uid = ref.UID
	}
	there, err := get(ctx, reader, client.ObjectKey{Namespace: from.namespace, Name: pvcName(from.name)}, pvc)
	return there && (pvc.UID == uid || uid == "" && pvc.Spec.VolumeName == volume.Name && wasBound(pvc)), err
}

// isStrangers reports whether a volume of a deleted SharedVolume is bound to a PVC that the operator did not create for that SharedVolume. Versions
// before 5.3 let such PVCs bind volumes. isStrangers reads from the API server only if the cache does not rule such a PVC out.
func isStrangers(ctx context.Context, cached, live client.Reader, volume *corev1.PersistentVolume) (bool, error) {
	from, ours := originOf(volume)
	if !ours || volume.Status.Phase != corev1.VolumeBound || volume.Spec.ClaimRef == nil {
		return false, nil
	}
	bound := false
	for _, reader := range []client.Reader{cached, live} {
		if there, err := exists(ctx, reader, from); err != nil || there {
			return false, err
		}
		pvc := &corev1.PersistentVolumeClaim{}
		there, err := get(ctx, reader, client.ObjectKey{Namespace: from.namespace, Name: pvcName(from.name)}, pvc)
		if bound = there && pvc.UID == volume.Spec.ClaimRef.UID; err != nil || bound && isOwned(pvc, from.uid) {
			return false, err
		}
	}
	return bound, nil
}
