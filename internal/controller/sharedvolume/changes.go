package sharedvolume

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// what is the action of a change, such as createPVC.
type what string

const (
	createVolume  what = "create volume"
	createPVC     what = "create PVC"
	deletePVC     what = "delete PVC"
	nudgePVC      what = "annotate PVC"
	deleteVolume  what = "delete volume"
	rejoinVolume  what = "rejoin volume"
	markVolume    what = "mark volume"
	adoptPVC      what = "adopt PVC"
	restoreIDs    what = "restore IDs"
	dropFinalizer what = "drop finalizer"
	addAffinity   what = "add zone affinity"
)

// change is one write. Patches and deletions have preconditions: the UID and the resource version of the object that the operator read.
type change struct {
	what   what
	object client.Object
	// fields are the content of a merge patch.
	fields map[string]any
}

// restoring returns the change that sets the IDs of a SharedVolume back to the IDs of its volume.
func restoring(owner *v1alpha1.SharedVolume, is efs.Share) *change {
	return &change{what: restoreIDs, object: owner, fields: map[string]any{
		"spec": map[string]any{"fileSystemID": is.FileSystem, "accessPointID": is.AccessPoint},
	}}
}

// rejoining returns the change that points the claimRef of a volume at the PVC with this UID.
func rejoining(volume *corev1.PersistentVolume, pvc types.UID) *change {
	ref := map[string]any{"uid": pvc, "resourceVersion": nil}
	return &change{what: rejoinVolume, object: volume, fields: map[string]any{"spec": map[string]any{"claimRef": ref}}}
}

// claimant returns the UID of the PVC that may bind a volume. If no PVC may bind it, claimant returns the UID of the SharedVolume, which no PVC can
// have.
func claimant(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) types.UID {
	pvc := w.pvc
	names := pvc != nil && isPVCOf(pvc, owner) && (pvc.Spec.VolumeName == "" || pvc.Spec.VolumeName == volume.Name)
	if names && (wasBound(pvc) || w.limits.Denied(shareIn(owner)) == "") {
		return pvc.UID
	}
	return owner.UID
}

// nudging returns the change that annotates a PVC so that Kubernetes binds it at once. It returns nil if the PVC does not need that. When the volume
// of a PVC appears, Kubernetes does not check the PVC. It binds the PVC when the PVC changes, or at the resync every 15 seconds (v1.36.3,
// pkg/controller/volume/persistentvolume: syncVolume in pv_controller.go, resync in pv_controller_base.go).
func nudging(pvc *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) *change {
	waits := pvc.Status.Phase == corev1.ClaimPending && volume.Status.Phase == corev1.VolumeBound
	if !waits || pvc.Annotations[volumeUIDAnnotation] == string(volume.UID) {
		return nil
	}
	return &change{what: nudgePVC, object: pvc, fields: map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{volumeUIDAnnotation: volume.UID}},
	}}
}

// marking returns the change that records the owner on a volume. The change also restores the reclaim policy, and sets a missing UID in the claimRef.
// marking returns nil if no field differs.
func marking(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *change {
	wanted := newVolume(owner, volume.Name, claimant(owner, w, volume))
	fields := map[string]any{}
	if metadata := missing(wanted, volume); len(metadata) > 0 {
		fields["metadata"] = metadata
	}
	spec := map[string]any{}
	if volume.Spec.PersistentVolumeReclaimPolicy != wanted.Spec.PersistentVolumeReclaimPolicy {
		spec["persistentVolumeReclaimPolicy"] = wanted.Spec.PersistentVolumeReclaimPolicy
	}
	if isOpen(volume) {
		spec["claimRef"] = wanted.Spec.ClaimRef
	}
	if len(spec) > 0 {
		fields["spec"] = spec
	}
	if len(fields) == 0 {
		return nil
	}
	return &change{what: markVolume, object: volume, fields: fields}
}

// adopting returns the change that makes the SharedVolume the owner of its PVC, and restores the label by which the cache selects PVCs. It returns
// nil if the PVC already has the owner and the label.
func adopting(owner *v1alpha1.SharedVolume, pvc *corev1.PersistentVolumeClaim) *change {
	wanted := newPVC(owner, "")
	metadata := missing(wanted, pvc)
	if !isOwned(pvc, owner.UID) {
		// A strategic merge patch keeps the references to other owners.
		metadata["ownerReferences"] = wanted.OwnerReferences
	}
	if len(metadata) == 0 {
		return nil
	}
	return &change{what: adoptPVC, object: pvc, fields: map[string]any{"metadata": metadata}}
}

// missing returns the labels and annotations that the live object lacks.
func missing(wanted, live metav1.Object) map[string]any {
	found := map[string]any{}
	for field, values := range map[string][2]map[string]string{
		"labels": {wanted.GetLabels(), live.GetLabels()}, "annotations": {wanted.GetAnnotations(), live.GetAnnotations()},
	} {
		lacks := maps.Clone(values[0])
		maps.DeleteFunc(lacks, func(key, value string) bool { return values[1][key] == value })
		if len(lacks) > 0 {
			found[field] = lacks
		}
	}
	return found
}

// dropping returns the change that removes the finalizer of the community's operator. It returns nil if the SharedVolume does not have that
// finalizer.
func dropping(owner *v1alpha1.SharedVolume) *change {
	kept := slices.DeleteFunc(slices.Clone(owner.Finalizers), func(name string) bool { return name == CommunityFinalizer })
	if len(kept) == len(owner.Finalizers) {
		return nil
	}
	return &change{what: dropFinalizer, object: owner, fields: map[string]any{"metadata": map[string]any{"finalizers": kept}}}
}
