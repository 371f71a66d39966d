package sharedvolume

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// rule decides on the plan for a SharedVolume. Without a plan, the next rule decides. The volume is nil if there is none.
type rule func(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan

// decide returns the first plan. The last rule always has one.
func decide(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume, rules ...rule) plan {
	for _, rule := range rules {
		if p := rule(owner, w, volume); p != nil {
			return *p
		}
	}
	return plan{}
}

// doing is the plan to make a change; nil without one.
func doing(reason string, do *change) *plan {
	if do == nil {
		return nil
	}
	return &plan{phase: v1alpha1.Pending, reason: reason, do: do}
}

// create makes the PVC, and then the volume, which names it by UID.
func create(owner *v1alpha1.SharedVolume, w seen, _ *corev1.PersistentVolume) *plan {
	name, _ := volumeFor(owner, w)
	if w.pvc == nil {
		return doing("Creating", &change{what: createPVC, object: newPVC(owner, name)})
	}
	volume := newVolume(owner, name, w.pvc.UID)
	if !wasBound(w.pvc) && w.placement.Zone != "" {
		// The zone of a new volume binds its pods. A lost volume comes back without: a pod may run with it elsewhere.
		volume.Spec.NodeAffinity = affinityTo(w.placement.Zone)
	}
	return &plan{phase: v1alpha1.Pending, reason: "Creating", volume: name, do: &change{what: createVolume, object: volume}}
}

// shareProblem is what keeps a share from having a volume.
func shareProblem(owner *v1alpha1.SharedVolume, w seen, _ *corev1.PersistentVolume) *plan {
	denied := w.limits.Denied(shareIn(owner))
	switch {
	case denied != "":
		return failed("NotAllowed", "%s", denied)
	case !shareIn(owner).Valid():
		return failed("InvalidIDs", "%q and %q are not the IDs of an EFS file system and an access point: create another SharedVolume",
			owner.Spec.FileSystemID, owner.Spec.AccessPointID)
	default:
		return nil
	}
}

// zoneUnknown finds out or awaits the zone of a pair that no pod has ever used: it is part of a new volume.
func zoneUnknown(owner *v1alpha1.SharedVolume, w seen, _ *corev1.PersistentVolume) *plan {
	switch {
	case wasBound(w.pvc):
		return nil
	case w.askable:
		return &plan{phase: v1alpha1.Pending, look: lookShare}
	case isAwaited(owner, w):
		return &plan{phase: v1alpha1.Pending, reason: "WaitingForFileSystem", message: w.placement.Message, retry: restOfListing(owner, w)}
	default:
		return nil
	}
}

// volumeFor is the name of the volume that is to be made, and the volume that has this name already; nil if none has.
func volumeFor(owner *v1alpha1.SharedVolume, w seen) (name string, taken *corev1.PersistentVolume) {
	if plain := plainVolumeName(owner.Namespace, owner.Name); w.pvc != nil && w.pvc.Spec.VolumeName == plain {
		// Nobody can change which volume a PVC is for.
		return plain, w.plain
	}
	return uniqueVolumeName(owner.Namespace, owner.Name, string(owner.UID)), w.unique
}

// nameProblem is why no volume can be made under the name that it needs.
func nameProblem(owner *v1alpha1.SharedVolume, w seen, _ *corev1.PersistentVolume) *plan {
	wanted, taken := volumeFor(owner, w)
	unique := uniqueVolumeName(owner.Namespace, owner.Name, string(owner.UID))
	switch {
	case taken == nil:
		return nil
	case wanted != unique && !wasBound(w.pvc):
		return wrongVolume(w, unique)
	case w.pvc == nil:
		return failed("NameTaken", "PersistentVolume %s has another owner: create another SharedVolume, or delete the volume if it is unused", wanted)
	case isOfPrevious(taken, owner):
		// Somebody has deleted the previous one and kept its PVC: "oc delete --cascade=orphan".
		return failed("NameTaken", "PersistentVolumeClaim %s belongs to a deleted SharedVolume of the same name: delete it when no pod uses it, "+
			"or choose another name for the SharedVolume", w.pvc.Name)
	default:
		return failed("NameTaken", "PersistentVolumeClaim %s names PersistentVolume %s, which has another owner: delete the PVC "+
			"when no pod uses it, or choose another name for the SharedVolume", w.pvc.Name, wanted)
	}
}

// volumeProblem is what is wrong with the volume, and what is done about it.
func volumeProblem(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	is, known := efs.ShareOf(volume)
	denied := w.limits.Denied(is)
	switch {
	case isOpen(volume) && !w.live:
		// A PVC without our label is not in the cache.
		return &plan{phase: v1alpha1.Pending, look: lookLive}
	case denied != "" && isUnbound(volume, w.pvc) && volume.DeletionTimestamp == nil:
		return doing("NotAllowed", &change{what: deleteVolume, object: volume})
	case isOpen(volume):
		// Before all else: any PVC of that name could have it.
		return doing("Rebuilding", marking(owner, w, volume))
	case !known:
		return failed("VolumeChanged", "PersistentVolume %s no longer names an EFS access point: restore it, or delete the "+
			"SharedVolume when no pod uses its PVC", volume.Name)
	case is != shareIn(owner) && denied != "" && !areBound(volume, w.pvc):
		// Who may not use a share does not learn its IDs. Who has it bound knows it.
		return failed("NotAllowed", "the IDs were changed, and the namespace may not use the IDs of PersistentVolume %s: delete the "+
			"SharedVolume and create another one", volume.Name)
	case is != shareIn(owner):
		return &plan{
			phase: v1alpha1.Pending, reason: "Restoring", message: "the IDs are immutable: the operator restores them", do: restoring(owner, is),
		}
	case volume.DeletionTimestamp != nil:
		return rebuild(owner, w, volume)
	default:
		return doing("Adopting", marking(owner, w, volume))
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
func rebuild(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	denied := w.limits.Denied(shareIn(owner))
	hasPVC := w.pvc != nil && isPVCOf(w.pvc, owner) && w.pvc.DeletionTimestamp == nil
	switch {
	case !hasPVC && denied != "":
		// It is not made again.
		return failed("NotAllowed", "%s", denied)
	case !hasPVC:
		return &plan{phase: v1alpha1.Pending, reason: "Rebuilding", message: fmt.Sprintf("PersistentVolume %s is being deleted: "+
			"waiting for its PVC and finalizers to go%s; the operator then recreates it", volume.Name, finalizers(volume.Finalizers))}
	case w.users == nil:
		return lookForUsers(w)
	case denied != "":
		// It would not be made again.
		return failed("VolumeDeleting", "PersistentVolume %s is being deleted, and the operator may not recreate it: %s", volume.Name, denied)
	case len(w.users) > 0:
		return failed("VolumeDeleting", "PersistentVolume %s is being deleted, but pods use it: %s; stop them, and the operator "+
			"recreates the PVC and the volume", volume.Name, status.Shorten(w.users))
	default:
		return doing("Rebuilding", &change{what: deletePVC, object: w.pvc})
	}
}

// lookForUsers asks for the pods that use the PVC. They are read only once everything else was.
func lookForUsers(w seen) *plan {
	if !w.live {
		return &plan{phase: v1alpha1.Failed, look: lookLive}
	}
	return &plan{phase: v1alpha1.Failed, look: lookUsers}
}

// pvcProblem is what keeps the PVC from being used with the volume, or with one that can be made.
func pvcProblem(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	names := []string{uniqueVolumeName(owner.Namespace, owner.Name, string(owner.UID)), plainVolumeName(owner.Namespace, owner.Name)}
	if volume != nil {
		names = []string{volume.Name}
	}
	pvc := w.pvc
	switch {
	case pvc == nil:
		return nil
	case isPVCOfPrevious(pvc, owner):
		return waitForPrevious(pvc.Name)
	case !isPVCOf(pvc, owner):
		return failed("NameTaken", "PersistentVolumeClaim %s has another owner: delete it if it is unused, or choose another name for the "+
			"SharedVolume", pvc.Name)
	case pvc.DeletionTimestamp != nil && w.users == nil:
		return lookForUsers(w)
	case pvc.DeletionTimestamp != nil && len(w.users) == 0:
		return &plan{phase: v1alpha1.Pending, reason: "Rebuilding", message: "waiting for the deletion of PVC " + pvc.Name + finalizers(pvc.Finalizers)}
	case pvc.DeletionTimestamp != nil:
		return failed("ClaimDeleting", "PersistentVolumeClaim %s is being deleted: waiting until no pod uses it%s; the operator then "+
			"recreates it", pvc.Name, usedBy(w.users))
	case pvc.Spec.VolumeName == "" || slices.Contains(names, pvc.Spec.VolumeName):
		return nil
	default:
		return wrongVolume(w, names[0])
	}
}

// wrongVolume is what is done about a PVC that asks for another volume, which nobody can change.
func wrongVolume(w seen, wanted string) *plan {
	pvc := w.pvc
	waits := pvc.Status.Phase == corev1.ClaimPending
	switch {
	case waits && w.users == nil:
		return lookForUsers(w)
	case waits && len(w.users) == 0:
		// It can't hold data. The community's operator left such PVCs where two SharedVolumes wanted one volume.
		return doing("Rebuilding", &change{what: deletePVC, object: pvc})
	default:
		return failed("ClaimChanged", "PersistentVolumeClaim %s names volume %s instead of %s%s: delete the PVC when no pod uses it, and the "+
			"operator recreates it", pvc.Name, pvc.Spec.VolumeName, wanted, usedBy(w.users))
	}
}

// volumeTaken reports that a PVC of somebody else has the volume.
func volumeTaken(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	if w.pvc == nil || isPVCOf(w.pvc, owner) || isPVCOfPrevious(w.pvc, owner) || !areBound(volume, w.pvc) {
		return nil
	}
	return failed("VolumeTaken", "PersistentVolume %s of this SharedVolume is bound to PersistentVolumeClaim %s, which has another owner: pods with "+
		"this PVC can use the share. Find out who created it, and delete it when no pod uses it", volume.Name, w.pvc.Name)
}

// rejoin makes the PVC of a volume that has lost it, and gives the volume to it.
func rejoin(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	if w.pvc != nil && volume.Spec.ClaimRef.UID == w.pvc.UID {
		return nil
	}
	denied := w.limits.Denied(shareIn(owner))
	switch {
	case !w.live:
		// The cache does not show a PVC that has lost our label.
		return &plan{phase: v1alpha1.Pending, look: lookLive}
	case denied != "":
		return failed("NotAllowed", "%s", denied)
	case w.pvc == nil:
		// The volume stays for the PVC that has gone, which nobody can bring back, until it names the new one.
		return doing("Rebuilding", &change{what: createPVC, object: newPVC(owner, volume.Name)})
	default:
		return doing("Rebuilding", rejoining(volume, w.pvc.UID))
	}
}

// adopt takes over the PVC, and what else keeps the community's operator from being dropped.
func adopt(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	return doing("Adopting", cmp.Or(adopting(owner, w.pvc), cutOver(owner, w, volume)))
}

func nudge(_ *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	return doing("Binding", nudging(w.pvc, volume))
}

// waitForBinding is the plan when there is nothing left to do.
func waitForBinding(_ *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	pvc := w.pvc
	age := w.now.Sub(pvc.CreationTimestamp.Time)
	if !w.pvcMade.IsZero() {
		// The API server's clock may be another one.
		age = w.now.Sub(w.pvcMade)
	}
	switch {
	case pvc.Status.Phase == corev1.ClaimBound && w.noDriver:
		return &plan{phase: v1alpha1.Ready, reason: "Bound", message: noDriverMessage}
	case pvc.Status.Phase == corev1.ClaimBound:
		return &plan{phase: v1alpha1.Ready, reason: "Bound"}
	case age < patience:
		return &plan{phase: v1alpha1.Pending, reason: "Binding", retry: patience - age}
	default:
		return &plan{
			phase: v1alpha1.Pending, reason: "Binding",
			message: fmt.Sprintf("waiting for Kubernetes to bind PVC %s to volume %s; \"oc describe\" of both shows what prevents it",
				pvc.Name, volume.Name),
		}
	}
}
