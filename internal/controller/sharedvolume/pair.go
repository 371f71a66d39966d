package sharedvolume

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// withoutVolume makes the PVC and then the volume, which names it by UID.
func withoutVolume(owner *v1alpha1.SharedVolume, w seen) plan {
	plain := plainVolumeName(owner.Namespace, owner.Name)
	unique := uniqueVolumeName(owner.Namespace, owner.Name, string(owner.UID))
	if p := pvcProblem(owner, w, unique, plain); p.phase != "" {
		return p
	}
	name, p := freeName(owner, w, plain, unique)
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
	if !wasBound(w.pvc) {
		if p := neverBound(owner, w); p.phase != "" {
			return p
		}
	}
	if w.pvc == nil {
		return plan{phase: v1alpha1.Pending, reason: "Creating", do: &change{what: createPVC, object: newPVC(owner, name)}}
	}
	volume := newVolume(owner, name, w.pvc.UID)
	if !wasBound(w.pvc) && w.placement.Zone != "" {
		// The zone of a new volume binds its pods. A lost volume comes back without: a pod may run with it elsewhere.
		volume.Spec.NodeAffinity = affinityTo(w.placement.Zone)
	}
	return plan{phase: v1alpha1.Pending, reason: "Creating", volume: name, do: &change{what: createVolume, object: volume}}
}

// neverBound is what is to be known before a pair is made that no pod has ever used. The phase is empty if all is.
func neverBound(owner *v1alpha1.SharedVolume, w seen) plan {
	switch {
	case w.askable:
		return plan{phase: v1alpha1.Pending, look: lookShare}
	case isAwaited(owner, w):
		return plan{phase: v1alpha1.Pending, reason: "WaitingForFileSystem", message: w.placement.Message, retry: restOfListing(owner, w)}
	default:
		return plan{}
	}
}

// freeName is the name for a volume that is to be made, or why there is none.
func freeName(owner *v1alpha1.SharedVolume, w seen, plain, unique string) (string, plan) {
	wanted, taken := unique, w.unique
	if w.pvc != nil && w.pvc.Spec.VolumeName == plain {
		// Nobody can change which volume a PVC is for.
		wanted, taken = plain, w.plain
	}
	switch {
	case taken == nil:
		return wanted, plan{}
	case wanted == plain && !wasBound(w.pvc):
		return "", wrongVolume(w, unique)
	case w.pvc == nil:
		return "", failed("NameTaken", "PersistentVolume %s belongs to somebody else: make another SharedVolume, or delete the volume if nobody needs it",
			wanted)
	case isOfPrevious(taken, owner):
		// Somebody has deleted the previous one and kept its PVC: "oc delete --cascade=orphan".
		return "", failed("NameTaken", "PersistentVolumeClaim %s of a previous SharedVolume of this name was kept: delete it when no pod uses it, "+
			"or give the SharedVolume another name", w.pvc.Name)
	default:
		return "", failed("NameTaken", "PersistentVolumeClaim %s is for PersistentVolume %s, which is not of this SharedVolume: delete the PVC "+
			"when no pod uses it, or give the SharedVolume another name", w.pvc.Name, wanted)
	}
}

// volumeProblem is what is wrong with the volume, and what is done about it. The phase is empty if nothing is.
func volumeProblem(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) plan {
	is, known := efs.ShareOf(volume)
	denied := w.limits.Denied(is)
	switch {
	case isOpen(volume) && !w.live:
		// A PVC without our label is not in the cache.
		return plan{phase: v1alpha1.Pending, look: lookLive}
	case denied != "" && isUnbound(volume, w.pvc) && volume.DeletionTimestamp == nil:
		return plan{phase: v1alpha1.Pending, reason: "NotAllowed", do: &change{what: deleteVolume, object: volume}}
	case isOpen(volume):
		// Before all else: any PVC of that name could have it.
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", do: marking(owner, w, volume)}
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
	default:
		if marking := marking(owner, w, volume); marking != nil {
			return plan{phase: v1alpha1.Pending, reason: "Adopting", do: marking}
		}
		return plan{}
	}
}

// isOpen reports whether a volume names no PVC by UID, so that any of that name can have it. Operators before us have left such volumes, and
// whoever changes them.
func isOpen(volume *corev1.PersistentVolume) bool {
	return volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID == ""
}

func areBound(volume *corev1.PersistentVolume, pvc *corev1.PersistentVolumeClaim) bool {
	return pvc != nil && pvc.Status.Phase == corev1.ClaimBound && pvc.Spec.VolumeName == volume.Name &&
		volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == pvc.UID
}

// isUnbound reports whether a volume that an operator before this one made, up to 5.2, was never bound. Nobody can use it, so that it can be deleted.
func isUnbound(volume *corev1.PersistentVolume, pvc *corev1.PersistentVolumeClaim) bool {
	_, ours := originOf(volume)
	return ours && isOpen(volume) && isLetGo(volume) && !wasBound(pvc)
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
		return waitForPrevious(pvc.Name)
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
	if w.pvc != nil && !isPVCOf(w.pvc, owner) && !isPVCOfPrevious(w.pvc, owner) && areBound(volume, w.pvc) {
		return failed("VolumeTaken", "PersistentVolume %s of this SharedVolume is bound to PersistentVolumeClaim %s, which is not of it: delete the PVC "+
			"when no pod uses it, and find out who made it: whoever uses it reaches the share", volume.Name, w.pvc.Name)
	}
	if p := pvcProblem(owner, w, volume.Name); p.phase != "" {
		return p
	}
	if p := rejoined(owner, w, volume); p.phase != "" {
		return p
	}
	pvc := w.pvc
	if adopting := adopting(owner, pvc); adopting != nil {
		return plan{phase: v1alpha1.Pending, reason: "Adopting", do: adopting}
	}
	if cutting := cutOver(owner, w, volume); cutting != nil {
		return plan{phase: v1alpha1.Pending, reason: "Adopting", do: cutting}
	}
	if confining := confining(owner, w, volume); confining.phase != "" {
		return confining
	}
	if nudging := nudging(pvc, volume); nudging != nil {
		return plan{phase: v1alpha1.Pending, reason: "Binding", do: nudging}
	}
	return waiting(w, pvc, volume)
}

// rejoined makes the PVC of a volume that has lost it, and gives the volume to it. The phase is empty if they are together.
func rejoined(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) plan {
	if w.pvc != nil && volume.Spec.ClaimRef.UID == w.pvc.UID {
		return plan{}
	}
	denied := w.limits.Denied(shareIn(owner))
	switch {
	case !w.live:
		// The cache does not show a PVC that has lost our label.
		return plan{phase: v1alpha1.Pending, look: lookLive}
	case denied != "":
		return failed("NotAllowed", "%s", denied)
	case w.pvc == nil:
		// The volume stays for the PVC that has gone, which nobody can bring back, until it names the new one.
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", do: &change{what: createPVC, object: newPVC(owner, volume.Name)}}
	default:
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", do: rejoining(volume, w.pvc.UID)}
	}
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
