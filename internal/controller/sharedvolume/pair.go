package sharedvolume

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/efs"
	"github.com/csi-operators/csi-operators/internal/status"
)

func withoutVolume(owner *v1alpha1.SharedVolume, w seen) plan {
	usual := volumeName(owner.Namespace, owner.Name)
	other := otherVolumeName(owner.Namespace, owner.Name, string(owner.UID))
	if p := pvcProblem(owner, w, usual, other); p.phase != "" {
		return p
	}
	name, p := freeName(owner, w, usual, other)
	if name == "" {
		return p
	}
	denied := w.limits.Denied(shareIn(owner))
	switch {
	case denied != "":
		return failed("NotAllowed", "%s", denied)
	case !shareIn(owner).Valid():
		return failed("InvalidIDs", "%q and %q are not the IDs of an EFS file system and an access point: make another SharedVolume",
			owner.Spec.FileSystemID, owner.Spec.AccessPointID)
	}
	if w.pvc == nil {
		if p := withoutPair(owner, w); p.phase != "" {
			return p
		}
	}
	volume := newVolume(owner, name)
	switch {
	case w.pvc != nil:
		// The PVC has lost its volume. One that names the PVC by UID brings it back, also under a running pod, in whatever zone
		// that is.
		volume.Spec.ClaimRef.UID = w.pvc.UID
	case w.placement.Zone != "":
		volume.Spec.NodeAffinity = affinityTo(w.placement.Zone)
	}
	return plan{phase: v1alpha1.Pending, reason: "Creating", volume: name, do: &change{what: createVolume, object: volume}}
}

// withoutPair is what is to be known before the volume of a new SharedVolume is made. The phase is empty if all is.
func withoutPair(owner *v1alpha1.SharedVolume, w seen) plan {
	switch {
	case w.askable:
		return plan{phase: v1alpha1.Pending, look: lookShare}
	case isAwaited(owner, w):
		return plan{phase: v1alpha1.Pending, reason: "WaitingForFileSystem", message: w.placement.Message}
	case !w.live && !w.sought:
		// Kubernetes would give the volume to any PVC of that name.
		return plan{phase: v1alpha1.Pending, reason: "Creating", look: lookPVC}
	case w.mayLack:
		return plan{phase: v1alpha1.Pending, reason: "Creating", look: lookRoom}
	default:
		return plan{}
	}
}

// freeName is the name for a volume that is to be made, or why there is none.
func freeName(owner *v1alpha1.SharedVolume, w seen, usual, other string) (string, plan) {
	wanted, taken := "", w.usual
	if w.pvc != nil {
		// Nobody can change which volume a PVC is for.
		wanted = w.pvc.Spec.VolumeName
	}
	if wanted == other {
		taken = w.other
	}
	switch {
	case wanted != "" && taken == nil:
		return wanted, plan{}
	case w.usual != nil && isOfPrevious(w.usual, owner) && w.pvc != nil:
		// Somebody has deleted the previous one and kept its PVC: "oc delete --cascade=orphan".
		return "", failed("NameTaken", "PersistentVolumeClaim %s of a previous SharedVolume of this name was kept: delete it when no pod uses it, "+
			"or give the SharedVolume another name", w.pvc.Name)
	case wanted != "":
		return "", failed("NameTaken", "PersistentVolumeClaim %s is for PersistentVolume %s, which is not of this SharedVolume: delete the PVC "+
			"when no pod uses it, or give the SharedVolume another name", w.pvc.Name, wanted)
	case w.usual == nil:
		return usual, plan{}
	case isOfPrevious(w.usual, owner):
		return "", waitForPrevious("PersistentVolume", w.usual.Name)
	case w.other == nil:
		return other, plan{}
	default:
		return "", failed("NameTaken", "PersistentVolumes %s and %s belong to somebody else: rename the SharedVolume, or delete one "+
			"of them if nobody needs it", usual, other)
	}
}

// volumeProblem is what is wrong with the volume, and what is done about it. The phase is empty if nothing is.
func volumeProblem(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) plan {
	is, known := efs.ShareOf(volume)
	denied := w.limits.Denied(is)
	switch {
	case !known:
		return failed("VolumeChanged", "PersistentVolume %s is no volume for an access point any more: restore it, or delete the "+
			"SharedVolume when no pod uses its PVC", volume.Name)
	case is != shareIn(owner) && denied != "" && !areBound(volume, w.pvc):
		// Who may not use a share does not learn its IDs. Who has it bound knows it.
		return failed("NotAllowed", "the IDs were changed, and the namespace may not use the IDs that PersistentVolume %s has: delete the "+
			"SharedVolume, and make another one", volume.Name)
	case is != shareIn(owner):
		return plan{
			phase: v1alpha1.Pending, reason: "Restoring", message: "the IDs can't be changed and are put back", do: restoring(owner, is),
		}
	case volume.DeletionTimestamp != nil:
		return rebuild(owner, w, volume)
	case denied != "" && isUnbound(volume, w.pvc) && !w.live:
		// A PVC without our label is not in the cache.
		return plan{phase: v1alpha1.Pending, look: lookLive}
	case denied != "" && isUnbound(volume, w.pvc):
		// The volume names its PVC by name only: any PVC of that name would have the share.
		return plan{phase: v1alpha1.Pending, reason: "NotAllowed", do: &change{what: deleteVolume, object: volume}}
	default:
		if marking := marking(owner, w.pvc, volume); marking != nil {
			return plan{phase: v1alpha1.Pending, reason: "Adopting", do: marking}
		}
		return plan{}
	}
}

func areBound(volume *corev1.PersistentVolume, pvc *corev1.PersistentVolumeClaim) bool {
	return pvc != nil && pvc.Status.Phase == corev1.ClaimBound && pvc.Spec.VolumeName == volume.Name &&
		volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == pvc.UID
}

// isUnbound reports whether a volume of ours was never bound to its PVC, or not since that was made anew. Nobody can use it, so
// that it can be deleted.
func isUnbound(volume *corev1.PersistentVolume, pvc *corev1.PersistentVolumeClaim) bool {
	_, ours := originOf(volume)
	return ours && volume.Spec.ClaimRef.UID == "" && isLetGo(volume) && !wasBound(pvc)
}

// wasBound reports whether Kubernetes has ever bound a PVC.
func wasBound(pvc *corev1.PersistentVolumeClaim) bool {
	return pvc != nil && pvc.Status.Phase != corev1.ClaimPending && pvc.Status.Phase != ""
}

// rebuild ends a volume that is being deleted, which Kubernetes does only when its PVC has gone. Both are made again.
func rebuild(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) plan {
	denied := w.limits.Denied(shareIn(owner))
	hasPVC := w.pvc != nil && isPVCOf(w.pvc, owner) && w.pvc.DeletionTimestamp == nil
	switch {
	case !hasPVC && denied != "":
		// It is not made again.
		return failed("NotAllowed", "%s", denied)
	case w.pvc == nil && w.mayLack:
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", look: lookRoom}
	case !hasPVC:
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", message: fmt.Sprintf("PersistentVolume %s is being deleted, which ends when "+
			"no PVC and no finalizer holds it any more%s; then it is made again", volume.Name, finalizers(volume.Finalizers))}
	case w.users == nil:
		return lookForUsers(w)
	case denied != "":
		// It would not be made again.
		return failed("VolumeDeleting", "PersistentVolume %s is being deleted, which ends when no PVC holds it any more: %s", volume.Name, denied)
	case len(w.users) > 0:
		return failed("VolumeDeleting", "PersistentVolume %s is being deleted, but pods use it: %s; end them, and the PVC and the "+
			"volume are made again", volume.Name, status.Shorten(w.users))
	default:
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", do: &change{what: deletePVC, object: w.pvc}}
	}
}

// lookForUsers asks for the pods that use the PVC. They are read only once everything else was.
func lookForUsers(w seen) plan {
	if !w.live {
		return plan{phase: v1alpha1.Failed, look: lookLive}
	}
	return plan{phase: v1alpha1.Failed, look: lookUsers}
}

// pvcProblem is what keeps the PVC from being used with a volume of one of these names.
func pvcProblem(owner *v1alpha1.SharedVolume, w seen, volumes ...string) plan {
	pvc := w.pvc
	switch {
	case pvc == nil:
		return plan{}
	case isPVCOfPrevious(pvc, owner):
		return waitForPrevious("PVC", pvc.Name)
	case !isPVCOf(pvc, owner):
		return failed("NameTaken", "PersistentVolumeClaim %s is not of this SharedVolume: delete it if nobody needs it, or give the "+
			"SharedVolume another name", pvc.Name)
	case pvc.DeletionTimestamp != nil && w.users == nil:
		return lookForUsers(w)
	case pvc.DeletionTimestamp != nil && len(w.users) == 0:
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", message: "waiting for the end of PVC " + pvc.Name + finalizers(pvc.Finalizers)}
	case pvc.DeletionTimestamp != nil:
		return failed("ClaimDeleting", "PersistentVolumeClaim %s is being deleted, which ends when no pod uses it any more%s; then it is "+
			"made again", pvc.Name, usedBy(w.users))
	case pvc.Spec.VolumeName == "" || slices.Contains(volumes, pvc.Spec.VolumeName):
		return plan{}
	default:
		return wrongVolume(w, volumes[0])
	}
}

// wrongVolume is what is done about a PVC that asks for another volume, which nobody can change.
func wrongVolume(w seen, wanted string) plan {
	pvc := w.pvc
	waits := pvc.Status.Phase == corev1.ClaimPending
	switch {
	case waits && w.users == nil:
		return lookForUsers(w)
	case waits && len(w.users) == 0:
		// It can't hold data. The community's operator left such PVCs where two SharedVolumes wanted one volume.
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", do: &change{what: deletePVC, object: pvc}}
	default:
		return failed("ClaimChanged", "PersistentVolumeClaim %s wants volume %s instead of %s%s: delete the PVC when nobody needs it, and it "+
			"is made again", pvc.Name, pvc.Spec.VolumeName, wanted, usedBy(w.users))
	}
}

// withVolume brings the PVC and its volume together.
func withVolume(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) plan {
	if p := pvcProblem(owner, w, volume.Name); p.phase != "" {
		return p
	}
	pvc := w.pvc
	apart := areApart(volume, pvc)
	denied := w.limits.Denied(shareIn(owner))
	switch {
	case apart && !w.live:
		// The cache does not show a PVC that has lost our label.
		return plan{phase: v1alpha1.Pending, look: lookLive}
	case (apart || pvc == nil) && denied != "":
		return failed("NotAllowed", "%s", denied)
	case apart:
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", do: rejoining(volume, pvc)}
	case pvc == nil && volume.Status.Phase != corev1.VolumeAvailable && w.now.Sub(w.volumeMade) < settling:
		return plan{phase: v1alpha1.Pending, reason: "Creating", retry: settling}
	case pvc == nil:
		return plan{phase: v1alpha1.Pending, reason: "Creating", do: &change{what: createPVC, object: newPVC(owner, volume.Name)}}
	}
	if adopting := adopting(owner, pvc); adopting != nil {
		return plan{phase: v1alpha1.Pending, reason: "Adopting", do: adopting}
	}
	if cutting := cutOver(owner, w, volume); cutting != nil {
		return plan{phase: v1alpha1.Pending, reason: "Adopting", do: cutting}
	}
	if confining := confining(owner, w, volume); confining.phase != "" {
		return confining
	}
	return waiting(w, pvc, volume)
}

// areApart reports whether a volume is for another PVC than the one that is there. Without a UID it is open to that PVC, but
// no more if that was bound before.
func areApart(volume *corev1.PersistentVolume, pvc *corev1.PersistentVolumeClaim) bool {
	uid := volume.Spec.ClaimRef.UID
	if pvc == nil {
		return uid != ""
	}
	return (uid != "" && pvc.UID != uid) || (uid == "" && pvc.Status.Phase == corev1.ClaimLost)
}

// waiting is the plan when there is nothing left to do.
func waiting(w seen, pvc *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) plan {
	age := w.now.Sub(pvc.CreationTimestamp.Time)
	if !w.pvcMade.IsZero() {
		// The API server's clock may be another one.
		age = w.now.Sub(w.pvcMade)
	}
	switch {
	case pvc.Status.Phase == corev1.ClaimBound && w.noDriver:
		return plan{phase: v1alpha1.Ready, reason: "Bound", message: noDriverMessage}
	case pvc.Status.Phase == corev1.ClaimBound:
		return plan{phase: v1alpha1.Ready, reason: "Bound"}
	case age < patience:
		return plan{phase: v1alpha1.Pending, reason: "Binding", retry: patience - age}
	default:
		return plan{
			phase: v1alpha1.Pending, reason: "Binding",
			message: fmt.Sprintf("waiting for Kubernetes to bind PVC %s to volume %s; \"oc describe\" of both says why it does not",
				pvc.Name, volume.Name),
		}
	}
}
