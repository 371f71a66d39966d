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

// rule returns the plan for a SharedVolume, or nil if the next rule decides. The argument volume is nil if the SharedVolume has no volume.
type rule func(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan

// firstPlan returns the plan of the first rule that returns one. The last rule must return a plan.
func firstPlan(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume, rules ...rule) plan {
	for _, rule := range rules {
		if p := rule(owner, w, volume); p != nil {
			return *p
		}
	}
	return plan{}
}

// planChange returns the plan to make a change. It returns nil if the change is nil.
func planChange(reason string, do *change) *plan {
	if do == nil {
		return nil
	}
	return &plan{phase: v1alpha1.Pending, reason: reason, do: do}
}

// create plans to create the PVC first, and then the volume. The volume names the PVC by UID.
func create(owner *v1alpha1.SharedVolume, w seen, _ *corev1.PersistentVolume) *plan {
	name, _ := volumeFor(owner, w)
	if w.pvc == nil {
		return planChange("Creating", &change{what: createPVC, object: newPVC(owner, name)})
	}
	volume := newVolume(owner, name, w.pvc.UID)
	if !wasBound(w.pvc) && w.placement.Zone != "" {
		// Only a volume that was never bound gets the affinity. If the operator recreates a PersistentVolume, pods in other zones may use its data.
		volume.Spec.NodeAffinity = affinityTo(w.placement.Zone)
	}
	return &plan{phase: v1alpha1.Pending, reason: "Creating", volume: name, do: &change{what: createVolume, object: volume}}
}

// shareProblem returns a failed plan if the namespace may not use the share, or if the IDs are invalid.
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

// zoneUnknown returns a plan that looks up the zone of a new volume, or that waits until AWS lists the file system.
func zoneUnknown(owner *v1alpha1.SharedVolume, w seen, _ *corev1.PersistentVolume) *plan {
	switch {
	case wasBound(w.pvc):
		return nil
	case w.askable:
		return &plan{phase: v1alpha1.Pending, query: queryShare}
	case isAwaited(owner, w):
		return &plan{phase: v1alpha1.Pending, reason: "WaitingForFileSystem", message: w.placement.Message, retry: restOfListing(owner, w)}
	default:
		return nil
	}
}

// volumeFor returns the name of the volume to create. Result "taken" is the existing volume of this name, or nil if no volume has this name.
func volumeFor(owner *v1alpha1.SharedVolume, w seen) (name string, taken *corev1.PersistentVolume) {
	if plain := plainVolumeName(owner.Namespace, owner.Name); w.pvc != nil && w.pvc.Spec.VolumeName == plain {
		// The PVC already names this volume, and spec.volumeName of a PVC is immutable.
		return plain, w.plain
	}
	return uniqueVolumeName(owner.Namespace, owner.Name, string(owner.UID)), w.unique
}

// nameProblem returns a plan if another volume already has the name that the new volume needs.
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
		// A user deleted the previous SharedVolume without its PVC, with option --cascade of "oc delete".
		return failed("NameTaken", "PersistentVolumeClaim %s belongs to a deleted SharedVolume of the same name: delete it when no pod uses it, "+
			"or choose another name for the SharedVolume", w.pvc.Name)
	default:
		return failed("NameTaken", "PersistentVolumeClaim %s names PersistentVolume %s, which has another owner: delete the PVC "+
			"when no pod uses it, or choose another name for the SharedVolume", w.pvc.Name, wanted)
	}
}

// volumeProblem returns a plan that repairs the volume, or a failed plan.
func volumeProblem(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	is, known := efs.ShareOf(volume)
	denied := w.limits.Denied(is)
	switch {
	case isOpen(volume) && !w.live:
		// The cache does not have PVCs without our label, so the plan needs a live read.
		return &plan{phase: v1alpha1.Pending, query: queryLive}
	case denied != "" && isUnbound(volume, w.pvc) && volume.DeletionTimestamp == nil:
		return planChange("NotAllowed", &change{what: deleteVolume, object: volume})
	case isOpen(volume):
		// This repair comes before all other repairs, because any PVC of that name could bind the volume.
		return planChange("Rebuilding", marking(owner, w, volume))
	case !known:
		return failed("VolumeChanged", "PersistentVolume %s no longer names an EFS access point: restore it, or delete the "+
			"SharedVolume when no pod uses its PVC", volume.Name)
	case is != shareIn(owner) && denied != "" && !areBound(volume, w.pvc):
		// The message must not disclose the IDs of a share that the namespace may not use, unless the PVC and the volume are bound to each other.
		return failed("NotAllowed", "the IDs were changed, and the namespace may not use the IDs of PersistentVolume %s: delete the "+
			"SharedVolume and create another one", volume.Name)
	case is != shareIn(owner):
		return &plan{
			phase: v1alpha1.Pending, reason: "Restoring", message: "the IDs are immutable: the operator restores them", do: restoring(owner, is),
		}
	case volume.DeletionTimestamp != nil:
		return rebuild(owner, w, volume)
	default:
		return planChange("Adopting", marking(owner, w, volume))
	}
}

// isOpen reports whether a volume names no PVC by UID, so that any PVC of the right name could bind the volume. Predecessors and users leave such
// volumes.
func isOpen(volume *corev1.PersistentVolume) bool {
	return volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID == ""
}

func areBound(volume *corev1.PersistentVolume, pvc *corev1.PersistentVolumeClaim) bool {
	return pvc != nil && pvc.Status.Phase == corev1.ClaimBound && pvc.Spec.VolumeName == volume.Name &&
		volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == pvc.UID
}

// isUnbound reports whether a volume from version 5.2 or earlier was never bound. The operator can safely delete such a volume, because no pod can
// use it.
func isUnbound(volume *corev1.PersistentVolume, pvc *corev1.PersistentVolumeClaim) bool {
	_, ours := originOf(volume)
	return ours && isOpen(volume) && isReleased(volume) && !wasBound(pvc)
}

// wasBound reports whether Kubernetes has ever bound the PVC.
func wasBound(pvc *corev1.PersistentVolumeClaim) bool {
	return pvc != nil && pvc.Status.Phase != corev1.ClaimPending && pvc.Status.Phase != ""
}

// rebuild returns the plan to recreate a volume that is being deleted. Kubernetes completes the deletion of the volume only after the deletion of its
// PVC. So the operator recreates the PVC, too.
func rebuild(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	denied := w.limits.Denied(shareIn(owner))
	hasPVC := w.pvc != nil && isPVCOf(w.pvc, owner) && w.pvc.DeletionTimestamp == nil
	switch {
	case !hasPVC && denied != "":
		return failed("NotAllowed", "%s", denied)
	case !hasPVC:
		return &plan{phase: v1alpha1.Pending, reason: "Rebuilding", message: fmt.Sprintf("PersistentVolume %s is being deleted: "+
			"waiting until its PVC is deleted and its finalizers are removed%s; the operator then recreates it", volume.Name, finalizers(volume.Finalizers))}
	case w.users == nil:
		return queryUsersLive(w)
	case denied != "":
		// The operator must not delete the PVC here. It could not recreate the PVC, because the namespace may not use the share.
		return failed("VolumeDeleting", "PersistentVolume %s is being deleted, and the operator may not recreate it: %s", volume.Name, denied)
	case len(w.users) > 0:
		return failed("VolumeDeleting", "PersistentVolume %s is being deleted, but pods use it: %s; stop them, and the operator "+
			"recreates the PVC and the volume", volume.Name, status.Shorten(w.users))
	default:
		return planChange("Rebuilding", &change{what: deletePVC, object: w.pvc})
	}
}

// queryUsersLive plans to read the pods that use the PVC. That read is expensive, so it comes after a live read of the other objects.
func queryUsersLive(w seen) *plan {
	if !w.live {
		return &plan{phase: v1alpha1.Failed, query: queryLive}
	}
	return &plan{phase: v1alpha1.Failed, query: queryUsers}
}

// pvcProblem returns a failed or waiting plan if the PVC can't be bound to the volume. If the SharedVolume has no volume yet, pvcProblem checks the
// volume that create would make.
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
		return queryUsersLive(w)
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

// wrongVolume returns the plan for a PVC that names another volume. A PVC can't change that name. So the plan deletes a pending PVC that no pod uses,
// and the next plan recreates the PVC. For any other PVC, the plan is a failed plan.
func wrongVolume(w seen, wanted string) *plan {
	pvc := w.pvc
	waits := pvc.Status.Phase == corev1.ClaimPending
	switch {
	case waits && w.users == nil:
		return queryUsersLive(w)
	case waits && len(w.users) == 0:
		// A pending PVC holds no data. The community's operator left such PVCs when two SharedVolumes needed the same volume name.
		return planChange("Rebuilding", &change{what: deletePVC, object: pvc})
	default:
		return failed("ClaimChanged", "PersistentVolumeClaim %s names volume %s instead of %s%s: delete the PVC when no pod uses it, and the "+
			"operator recreates it", pvc.Name, pvc.Spec.VolumeName, wanted, usedBy(w.users))
	}
}

// volumeTaken returns a failed plan if the volume is bound to a PVC with another owner.
func volumeTaken(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	if w.pvc == nil || isPVCOf(w.pvc, owner) || isPVCOfPrevious(w.pvc, owner) || !areBound(volume, w.pvc) {
		return nil
	}
	return failed("VolumeTaken", "PersistentVolume %s of this SharedVolume is bound to PersistentVolumeClaim %s, which has another owner: pods with "+
		"this PVC can use the share. Find out who created it, and delete it when no pod uses it", volume.Name, w.pvc.Name)
}

// rejoin returns the plan that recreates a lost PVC, and then points the claimRef of the volume at the new PVC.
func rejoin(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	if w.pvc != nil && volume.Spec.ClaimRef.UID == w.pvc.UID {
		return nil
	}
	denied := w.limits.Denied(shareIn(owner))
	switch {
	case !w.live:
		// The cache does not have PVCs without our label, so the plan needs a live read.
		return &plan{phase: v1alpha1.Pending, query: queryLive}
	case denied != "":
		return failed("NotAllowed", "%s", denied)
	case w.pvc == nil:
		// The volume's claimRef still has the UID of the deleted PVC, so no PVC can bind the volume until the operator writes the new UID.
		return planChange("Rebuilding", &change{what: createPVC, object: newPVC(owner, volume.Name)})
	default:
		return planChange("Rebuilding", rejoining(volume, w.pvc.UID))
	}
}

// adopt returns the plan that makes the SharedVolume the owner of the PVC, and then completes the migration from the community's operator.
func adopt(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	return planChange("Adopting", cmp.Or(adopting(owner, w.pvc), cutOver(owner, w, volume)))
}

func nudge(_ *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	return planChange("Binding", nudging(w.pvc, volume))
}

// waitForBinding returns the plan that waits until Kubernetes binds the PVC. It is the last rule, and applies when the volume and the PVC are
// complete.
func waitForBinding(_ *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *plan {
	pvc := w.pvc
	age := w.now.Sub(pvc.CreationTimestamp.Time)
	if !w.pvcMade.IsZero() {
		// The time of the creation by our clock is better, because the API server's clock may differ from ours.
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
