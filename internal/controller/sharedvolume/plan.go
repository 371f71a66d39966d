package sharedvolume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// world is what the cluster has of a SharedVolume's names; nil means absent.
type world struct {
	// usual and other are the volumes of the two names that it may have.
	usual, other *corev1.PersistentVolume
	claim        *corev1.PersistentVolumeClaim
}

// plan is the next step, and what the status says meanwhile. At most one of the steps is set.
type plan struct {
	phase v1alpha1.Phase
	// reason and message say why the phase is not Ready.
	reason, message string
	// restore are the IDs to put back into the spec: those of the volume.
	restore *share
	// createVolume and createClaim are to be made.
	createVolume *corev1.PersistentVolume
	createClaim  *corev1.PersistentVolumeClaim
	// rejoin is a volume whose claim has gone; its claim reference is to lose the UID, so that the next claim can bind it.
	rejoin *corev1.PersistentVolume
	// volume is the name of the volume, once it is known.
	volume string
}

// next decides what to do for a SharedVolume that is not being deleted. It never touches what belongs to somebody else.
func next(owner *v1alpha1.SharedVolume, w world) plan {
	volume, step := volumeOf(owner, w)
	if volume == nil {
		return step
	}
	is, known := shareOf(volume)
	if !known {
		return failed("VolumeChanged", "PersistentVolume %s is no volume for an access point any more: restore it, or delete the "+
			"SharedVolume when no pod uses its claim", volume.Name)
	}
	if is != (share{owner.Spec.FileSystemID, owner.Spec.AccessPointID}) {
		return plan{phase: v1alpha1.Pending, reason: "Restoring", message: "the IDs can't be changed and are put back", restore: &is, volume: volume.Name}
	}
	if volume.DeletionTimestamp != nil {
		return failed("VolumeDeleting", "PersistentVolume %s is being deleted, which ends when its claim has gone: delete the claim "+
			"%s when no pod uses it, and both are made again", volume.Name, claimName(owner.Name))
	}
	return claimOf(owner, w.claim, volume)
}

// volumeOf finds the volume of a SharedVolume, or says what to do without one.
func volumeOf(owner *v1alpha1.SharedVolume, w world) (*corev1.PersistentVolume, plan) {
	for _, volume := range []*corev1.PersistentVolume{w.usual, w.other} {
		if volume != nil && isVolumeOf(volume, owner) {
			return volume, plan{}
		}
	}
	create := func(name string) (*corev1.PersistentVolume, plan) {
		return nil, plan{phase: v1alpha1.Pending, reason: "Creating", createVolume: newVolume(owner, name), volume: name}
	}
	switch {
	case w.usual == nil:
		return create(volumeName(owner.Namespace, owner.Name))
	case isOfFormer(w.usual, owner):
		return nil, plan{phase: v1alpha1.Pending, reason: "WaitingForFormer", message: fmt.Sprintf(
			"waiting for the end of PersistentVolume %s, which belongs to a former SharedVolume of this name", w.usual.Name)}
	case w.other == nil:
		return create(otherVolumeName(owner.Namespace, owner.Name, string(owner.UID)))
	default:
		return nil, failed("NameTaken", "PersistentVolumes %s and %s belong to somebody else: rename the SharedVolume, or delete one "+
			"of them if nobody needs it", w.usual.Name, w.other.Name)
	}
}

// isVolumeOf tells whether a volume was made for this very SharedVolume, by us or by the community's operator, which knew
// names only and left the claim reference to Kubernetes.
func isVolumeOf(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	if ref := volume.Spec.ClaimRef; ref != nil && (ref.Namespace != owner.Namespace || ref.Name != claimName(owner.Name)) {
		return false
	}
	if uid, found := volume.Annotations[ownerUIDAnnotation]; found {
		return uid == string(owner.UID)
	}
	return isLabelled(volume, owner)
}

// isOfFormer tells whether a volume was made for another SharedVolume of the same name.
func isOfFormer(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	uid, found := volume.Annotations[ownerUIDAnnotation]
	return found && uid != string(owner.UID) && isLabelled(volume, owner)
}

func isLabelled(object metav1.Object, owner *v1alpha1.SharedVolume) bool {
	for key, value := range labels(owner) {
		if object.GetLabels()[key] != value {
			return false
		}
	}
	return true
}

// claimOf brings the claim and its volume together.
func claimOf(owner *v1alpha1.SharedVolume, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) plan {
	pending := plan{phase: v1alpha1.Pending, volume: volume.Name}
	ref := volume.Spec.ClaimRef
	switch {
	case claim == nil && ref != nil && ref.UID != "":
		// The claim that the volume was bound to has gone, so that no pod can use it.
		pending.reason, pending.rejoin = "Rejoining", volume
		return pending
	case claim == nil:
		pending.reason, pending.createClaim = "Creating", newClaim(owner, volume.Name)
		return pending
	case isClaimOfFormer(claim, owner):
		pending.reason, pending.message = "WaitingForFormer", fmt.Sprintf(
			"waiting for the end of claim %s, which belongs to a former SharedVolume of this name", claim.Name)
		return pending
	case !isClaimOf(claim, owner):
		return failed("NameTaken", "PersistentVolumeClaim %s is not of this SharedVolume: delete or rename it, or rename the SharedVolume", claim.Name)
	case claim.DeletionTimestamp != nil:
		return failed("ClaimDeleting", "PersistentVolumeClaim %s is being deleted, which ends when no pod uses it any more; then it is "+
			"made again", claim.Name)
	case claim.Spec.VolumeName != volume.Name:
		return failed("ClaimChanged", "PersistentVolumeClaim %s wants volume %q instead of %s: delete it when no pod uses it, and it is made again",
			claim.Name, claim.Spec.VolumeName, volume.Name)
	case ref != nil && ref.UID != "" && ref.UID != claim.UID:
		return failed("VolumeTaken", "PersistentVolume %s is bound to a former claim: delete claim %s when no pod uses it, and it is made again",
			volume.Name, claim.Name)
	case claim.Status.Phase == corev1.ClaimBound:
		return plan{phase: v1alpha1.Ready, reason: "Bound", volume: volume.Name}
	default:
		pending.reason, pending.message = "Binding", fmt.Sprintf("waiting for Kubernetes to bind claim %s to volume %s", claim.Name, volume.Name)
		return pending
	}
}

// isClaimOf tells whether a claim was made for this very SharedVolume, or by the community's operator for one of its name.
func isClaimOf(claim *corev1.PersistentVolumeClaim, owner *v1alpha1.SharedVolume) bool {
	uid := ownerUID(claim)
	return uid == owner.UID || (uid == "" && isLabelled(claim, owner))
}

// isClaimOfFormer tells whether a claim was made for another SharedVolume of the same name; it goes with its owner.
func isClaimOfFormer(claim *corev1.PersistentVolumeClaim, owner *v1alpha1.SharedVolume) bool {
	uid := ownerUID(claim)
	return uid != "" && uid != owner.UID
}

// ownerUID is that of the SharedVolume that owns a claim, empty if none does.
func ownerUID(claim *corev1.PersistentVolumeClaim) types.UID {
	for _, ref := range claim.OwnerReferences {
		if ref.Kind == "SharedVolume" {
			return ref.UID
		}
	}
	return ""
}

func failed(reason, format string, args ...any) plan {
	return plan{phase: v1alpha1.Failed, reason: reason, message: fmt.Sprintf(format, args...)}
}
