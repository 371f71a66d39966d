package sharedvolume

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// volumeOf returns the volume of a SharedVolume. It returns nil if the SharedVolume has no volume.
func volumeOf(owner *v1alpha1.SharedVolume, w seen) *corev1.PersistentVolume {
	for _, volume := range []*corev1.PersistentVolume{w.plain, w.unique} {
		if volume != nil && isVolumeOf(volume, owner) {
			return volume
		}
	}
	return nil
}

// isVolumeOf reports whether a volume was created for this SharedVolume, and not for another SharedVolume of the same name. The community's operator
// recorded no UIDs, and set no claimRef.
func isVolumeOf(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	if ref := volume.Spec.ClaimRef; ref != nil && (ref.Namespace != owner.Namespace || ref.Name != pvcName(owner.Name)) {
		return false
	}
	if uid, found := volume.Annotations[ownerUIDAnnotation]; found {
		return uid == string(owner.UID)
	}
	return isLabelled(volume, owner) && (hadVolume(volume, owner) || isFor(volume, owner))
}

// hadVolume reports whether a volume without the UID annotation was created for this SharedVolume. A new SharedVolume must not get the volume of an
// earlier SharedVolume of the same name, unless it asks for the same share. Finalizers and status alone prove nothing, because users write finalizers
// and a backup restores the status. Only the creation times prove that the volume is not older than the SharedVolume, because only the API server
// sets these times. They are in whole seconds, so they can be equal.
func hadVolume(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	known := owner.Status.ClaimRef.Name != "" || slices.Contains(owner.Finalizers, CommunityFinalizer)
	return known && !owner.CreationTimestamp.After(volume.CreationTimestamp.Time)
}

func isFor(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	is, known := efs.ShareOf(volume)
	return known && is == shareIn(owner)
}

// isOfPrevious reports whether a volume was created for another SharedVolume of the same name.
func isOfPrevious(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	uid, found := volume.Annotations[ownerUIDAnnotation]
	return found && uid != string(owner.UID) && isLabelled(volume, owner)
}

func isLabelled(object metav1.Object, owner *v1alpha1.SharedVolume) bool {
	return k8slabels.SelectorFromSet(labels(owner.Namespace, owner.Name)).Matches(k8slabels.Set(object.GetLabels()))
}

// isPVCOf reports whether a PVC was created for this SharedVolume. A PVC that the community's operator created for a SharedVolume of this name
// counts, too.
func isPVCOf(pvc *corev1.PersistentVolumeClaim, owner *v1alpha1.SharedVolume) bool {
	return isOwned(pvc, owner.UID) || (len(ownersOf(pvc)) == 0 && isLabelled(pvc, owner))
}

// isPVCOfPrevious reports whether a PVC belongs to another SharedVolume of the same name. The garbage collector deletes such a PVC with its owner.
func isPVCOfPrevious(pvc *corev1.PersistentVolumeClaim, owner *v1alpha1.SharedVolume) bool {
	return len(ownersOf(pvc)) > 0 && !isOwned(pvc, owner.UID)
}

func isOwned(pvc *corev1.PersistentVolumeClaim, by types.UID) bool {
	return slices.ContainsFunc(ownersOf(pvc), func(ref metav1.OwnerReference) bool { return ref.UID == by })
}

// ownersOf returns the owner references of a PVC that point to SharedVolumes.
func ownersOf(pvc *corev1.PersistentVolumeClaim) []metav1.OwnerReference {
	var found []metav1.OwnerReference
	for _, ref := range pvc.OwnerReferences {
		if ref.Kind == kind && strings.HasPrefix(ref.APIVersion, v1alpha1.GroupVersion().Group+"/") {
			found = append(found, ref)
		}
	}
	return found
}

// origin is the SharedVolume for which a volume was created.
type origin struct {
	namespace, name string
	uid             types.UID
}

// originOf reads the origin of a volume. It returns false if the volume lacks our annotations, or if its claimRef names the PVC of another
// SharedVolume.
func originOf(volume *corev1.PersistentVolume) (origin, bool) {
	from := origin{
		namespace: volume.Labels[ownerNamespaceLabel], name: volume.Annotations[ownerNameAnnotation],
		uid: types.UID(volume.Annotations[ownerUIDAnnotation]),
	}
	ref := volume.Spec.ClaimRef
	if from.namespace == "" || from.name == "" || from.uid == "" || ref != nil && (ref.Namespace != from.namespace || ref.Name != pvcName(from.name)) {
		return origin{}, false
	}
	return from, true
}
