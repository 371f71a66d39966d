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

// volumeOf finds the volume of a SharedVolume; nil if there is none.
func volumeOf(owner *v1alpha1.SharedVolume, w seen) *corev1.PersistentVolume {
	for _, volume := range []*corev1.PersistentVolume{w.plain, w.unique} {
		if volume != nil && isVolumeOf(volume, owner) {
			return volume
		}
	}
	return nil
}

// isVolumeOf reports whether a volume was made for this very SharedVolume, by us or by the community's operator, which knew
// names only and left the PVC reference to Kubernetes.
func isVolumeOf(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	if ref := volume.Spec.ClaimRef; ref != nil && (ref.Namespace != owner.Namespace || ref.Name != pvcName(owner.Name)) {
		return false
	}
	if uid, found := volume.Annotations[ownerUIDAnnotation]; found {
		return uid == string(owner.UID)
	}
	return isLabelled(volume, owner) && (hadVolume(volume, owner) || isFor(volume, owner))
}

// hadVolume reports whether this volume was made for this very SharedVolume before volumes had a UID annotation. A new SharedVolume
// must not get what is left of another one of its name, unless it asks for the same share. The author of a SharedVolume writes its
// finalizers, and a backup brings its status back: only the API server sets the creation time, and an owner is older than its
// volume. Both times are in whole seconds.
func hadVolume(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	known := owner.Status.ClaimRef.Name != "" || slices.Contains(owner.Finalizers, CommunityFinalizer)
	return known && !owner.CreationTimestamp.After(volume.CreationTimestamp.Time)
}

func isFor(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	is, known := efs.ShareOf(volume)
	return known && is == shareIn(owner)
}

// isOfPrevious reports whether a volume was made for another SharedVolume of the same name.
func isOfPrevious(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	uid, found := volume.Annotations[ownerUIDAnnotation]
	return found && uid != string(owner.UID) && isLabelled(volume, owner)
}

func isLabelled(object metav1.Object, owner *v1alpha1.SharedVolume) bool {
	return k8slabels.SelectorFromSet(labels(owner.Namespace, owner.Name)).Matches(k8slabels.Set(object.GetLabels()))
}

// isPVCOf reports whether a PVC was made for this very SharedVolume, or by the community's operator for one of its name.
func isPVCOf(pvc *corev1.PersistentVolumeClaim, owner *v1alpha1.SharedVolume) bool {
	return isOwned(pvc, owner.UID) || (len(ownersOf(pvc)) == 0 && isLabelled(pvc, owner))
}

// isPVCOfPrevious reports whether a PVC was made for another SharedVolume of the same name; it goes with its owner.
func isPVCOfPrevious(pvc *corev1.PersistentVolumeClaim, owner *v1alpha1.SharedVolume) bool {
	return len(ownersOf(pvc)) > 0 && !isOwned(pvc, owner.UID)
}

func isOwned(pvc *corev1.PersistentVolumeClaim, by types.UID) bool {
	return slices.ContainsFunc(ownersOf(pvc), func(ref metav1.OwnerReference) bool { return ref.UID == by })
}

// ownersOf are the references to SharedVolumes that own a PVC.
func ownersOf(pvc *corev1.PersistentVolumeClaim) []metav1.OwnerReference {
	var found []metav1.OwnerReference
	for _, ref := range pvc.OwnerReferences {
		if ref.Kind == kind && strings.HasPrefix(ref.APIVersion, v1alpha1.GroupVersion().Group+"/") {
			found = append(found, ref)
		}
	}
	return found
}

// origin is the SharedVolume that a volume was made for.
type origin struct {
	namespace, name string
	uid             types.UID
}

// originOf reads the origin from the volume. It is false for volumes that were not made, or not marked, by us, or that
// somebody has given to another PVC.
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
