package sharedvolume

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/aws"
	"github.com/csi-operators/csi-operators/internal/status"
)

// patience is how long Kubernetes may take to bind a claim before the status tells that it is waited for: longer than it
// takes for 10,000 at once, or each of them would cost two writes more.
const patience = 10 * time.Minute

// settling is how long Kubernetes may take to see a new volume. A claim that it sees before its volume waits for up to 15
// seconds, until it looks at all claims anew. After this time it has seen the volume, or it is as late with the claim.
const settling = time.Second

// again is when to look once more at what is wrong. The cause may be an object that is not watched.
const again = 30 * time.Second

// world is what the cluster has of a SharedVolume's names; nil means absent.
type world struct {
	// usual and other are the volumes of the two names that it may have.
	usual, other *corev1.PersistentVolume
	claim        *corev1.PersistentVolumeClaim
	// live is false if this was read from the cache, which holds only what carries our label. sought is true if at least the
	// claim's name was looked for in the cluster.
	live, sought bool
	// denied says why the namespace may not use the share; empty if it may. restricted is true if somebody limits that.
	denied     string
	restricted bool
	// noDriver is true if no driver is installed that could mount the volume.
	noDriver bool
	// users are the pods that use the claim; nil if nobody has looked.
	users []string
	// askable is true as long as AWS could be asked about the share, and has not been. placement is its answer.
	askable   bool
	placement aws.Placement
	// elsewhere are the pods that use the claim outside of the zone of the share; nil if nobody has looked.
	elsewhere []string
	now       time.Time
	// volumeMade is when we made the volume; zero if an operator before us did.
	volumeMade time.Time
}

// look is something that a plan needs to know, and that is read only then.
type look int

const (
	// lookLive reads all from the cluster, lookClaim the claim alone.
	lookLive look = iota + 1
	lookClaim
	lookUsers
	// lookShare asks AWS, which may take seconds; what has to be fresh is read after it.
	lookShare
	lookPods
)

// plan is the next step, and what the status says meanwhile.
type plan struct {
	phase v1alpha1.Phase
	// reason and message say why the phase is what it is.
	reason, message string
	// bound tells whether the claim is bound.
	bound bool
	// volume is the name of the volume, once it is known.
	volume string
	// mountable is what AWS tells about mounting it; nil if that stays as it was told before.
	mountable *verdict
	// look is what to find out before anything else.
	look look
	// do is the one write to make; nil if there is none.
	do *change
	// retry is when to look again at what is not watched; 0 for never.
	retry time.Duration
}

// next decides what to do for a SharedVolume. It never touches what belongs to somebody else.
func next(owner *v1alpha1.SharedVolume, w world) plan {
	volume := volumeOf(owner, w)
	p := forPair(owner, w, volume)
	p.mountable = judge(owner, w, volume)
	if p.mountable == nil && owner.DeletionTimestamp == nil && p.look == 0 && p.do == nil {
		return plan{phase: p.phase, look: lookShare}
	}
	if p.phase == v1alpha1.Failed && p.look == 0 {
		if !w.live {
			// What the cache does not show may be there without our label.
			return plan{phase: p.phase, look: lookLive}
		}
		p.do = handOver(owner, w, volume)
	}
	if p.phase == v1alpha1.Ready && p.message == "" {
		p.message = p.mountable.problem()
	}
	if p.phase == v1alpha1.Failed || (p.phase == v1alpha1.Pending && p.message != "") || len(w.elsewhere) > 0 {
		p.retry = again
	}
	return p
}

// forPair decides by the volume and the claim alone.
func forPair(owner *v1alpha1.SharedVolume, w world, volume *corev1.PersistentVolume) plan {
	var p plan
	switch {
	case owner.DeletionTimestamp != nil:
		p = ending(owner, w, volume)
	case volume == nil:
		p = withoutVolume(owner, w)
	default:
		if p = volumeProblem(owner, w, volume); p.phase == "" {
			p = withVolume(owner, w, volume)
		}
		p.volume = volume.Name
	}
	if w.claim != nil && isClaimOf(w.claim, owner) {
		p.bound = w.claim.Status.Phase == corev1.ClaimBound
	}
	return p
}

// handOver is what is left to do until the community's operator is not needed any more, so that its finalizer can go; nil if
// nothing is.
func handOver(owner *v1alpha1.SharedVolume, w world, volume *corev1.PersistentVolume) *change {
	dropping := dropping(owner)
	if dropping == nil {
		return nil
	}
	if volume != nil && volume.DeletionTimestamp == nil {
		if marking := marking(owner, w.claim, volume); marking != nil {
			return marking
		}
	}
	if w.claim != nil && w.claim.DeletionTimestamp == nil && isClaimOf(w.claim, owner) {
		if adopting := adopting(owner, w.claim); adopting != nil {
			return adopting
		}
	}
	return dropping
}

// withoutVolume makes the volume.
func withoutVolume(owner *v1alpha1.SharedVolume, w world) plan {
	usual := volumeName(owner.Namespace, owner.Name)
	other := otherVolumeName(owner.Namespace, owner.Name, string(owner.UID))
	if p := claimProblem(owner, w, usual, other); p.phase != "" {
		return p
	}
	name, p := freeName(owner, w, usual, other)
	if name == "" {
		return p
	}
	switch {
	case w.denied != "":
		return failed("NotAllowed", "%s", w.denied)
	case !shareIn(owner).valid():
		return failed("InvalidIDs", "%q and %q are not the IDs of an EFS file system and an access point: make another SharedVolume",
			owner.Spec.FileSystemID, owner.Spec.AccessPointID)
	}
	if w.claim == nil && w.askable {
		return plan{phase: v1alpha1.Pending, look: lookShare}
	}
	if w.claim == nil && isAwaited(owner, w) {
		return plan{phase: v1alpha1.Pending, reason: "WaitingForFileSystem", message: w.placement.Message}
	}
	if w.claim == nil && !w.live && !w.sought {
		// Kubernetes would give the volume to any claim of that name.
		return plan{phase: v1alpha1.Pending, look: lookClaim}
	}
	volume := newVolume(owner, name)
	switch {
	case w.claim != nil:
		// The claim has lost its volume. One that names the claim by UID brings it back, also under a running pod, in whatever zone
		// that is.
		volume.Spec.ClaimRef.UID = w.claim.UID
	case w.placement.Zone != "":
		volume.Spec.NodeAffinity = affinityTo(w.placement.Zone)
	}
	return plan{phase: v1alpha1.Pending, reason: "Creating", volume: name, do: &change{what: createVolume, object: volume}}
}

// freeName is the name for a volume that is to be made, or why there is none.
func freeName(owner *v1alpha1.SharedVolume, w world, usual, other string) (string, plan) {
	switch {
	case w.claim != nil && w.claim.Spec.VolumeName == other && w.other == nil:
		return other, plan{}
	case w.usual == nil:
		return usual, plan{}
	case isOfFormer(w.usual, owner) && w.claim != nil:
		// Somebody has deleted the former one and kept its claim: "oc delete --cascade=orphan".
		return "", failed("NameTaken", "PersistentVolumeClaim %s of a former SharedVolume of this name was kept: delete it when no pod uses it, "+
			"or give the SharedVolume another name", w.claim.Name)
	case isOfFormer(w.usual, owner):
		return "", waitForFormer("PersistentVolume", w.usual.Name)
	case w.other == nil:
		return other, plan{}
	default:
		return "", failed("NameTaken", "PersistentVolumes %s and %s belong to somebody else: rename the SharedVolume, or delete one "+
			"of them if nobody needs it", usual, other)
	}
}

// volumeProblem is what is wrong with the volume, and what is done about it. The phase is empty if nothing is.
func volumeProblem(owner *v1alpha1.SharedVolume, w world, volume *corev1.PersistentVolume) plan {
	is, known := shareOf(volume)
	switch {
	case !known:
		return failed("VolumeChanged", "PersistentVolume %s is no volume for an access point any more: restore it, or delete the "+
			"SharedVolume when no pod uses its claim", volume.Name)
	case is != shareIn(owner):
		return plan{
			phase: v1alpha1.Pending, reason: "Restoring", message: "the IDs can't be changed and are put back", do: restoring(owner, is),
		}
	case volume.DeletionTimestamp != nil:
		return rebuild(owner, w, volume)
	default:
		if marking := marking(owner, w.claim, volume); marking != nil {
			return plan{phase: v1alpha1.Pending, reason: "Adopting", do: marking}
		}
		return plan{}
	}
}

// rebuild ends a volume that is being deleted, which Kubernetes does only when its claim has gone. Both are made again.
func rebuild(owner *v1alpha1.SharedVolume, w world, volume *corev1.PersistentVolume) plan {
	switch {
	case w.claim == nil || !isClaimOf(w.claim, owner) || w.claim.DeletionTimestamp != nil:
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", message: fmt.Sprintf("PersistentVolume %s is being deleted, which ends when "+
			"no claim and no finalizer holds it any more%s; then it is made again", volume.Name, finalizers(volume.Finalizers))}
	case w.users == nil:
		return plan{phase: v1alpha1.Failed, look: lookUsers}
	case w.denied != "":
		// It would not be made again.
		return failed("VolumeDeleting", "PersistentVolume %s is being deleted, which ends when no claim holds it any more: %s", volume.Name, w.denied)
	case len(w.users) > 0:
		return failed("VolumeDeleting", "PersistentVolume %s is being deleted, but pods use it: %s; end them, and the claim and the "+
			"volume are made again", volume.Name, status.Shorten(w.users))
	default:
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", do: &change{what: deleteClaim, object: w.claim}}
	}
}

// claimProblem is what keeps the claim from being used with a volume of one of these names.
func claimProblem(owner *v1alpha1.SharedVolume, w world, volumes ...string) plan {
	claim := w.claim
	switch {
	case claim == nil:
		return plan{}
	case isClaimOfFormer(claim, owner):
		return waitForFormer("claim", claim.Name)
	case !isClaimOf(claim, owner):
		return failed("NameTaken", "PersistentVolumeClaim %s is not of this SharedVolume: delete it if nobody needs it, or give the "+
			"SharedVolume another name", claim.Name)
	case claim.DeletionTimestamp != nil && w.users == nil:
		return plan{phase: v1alpha1.Failed, look: lookUsers}
	case claim.DeletionTimestamp != nil && len(w.users) == 0:
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", message: "waiting for the end of claim " + claim.Name + finalizers(claim.Finalizers)}
	case claim.DeletionTimestamp != nil:
		return failed("ClaimDeleting", "PersistentVolumeClaim %s is being deleted, which ends when no pod uses it any more%s; then it is "+
			"made again", claim.Name, usedBy(w.users))
	case claim.Spec.VolumeName == "" || slices.Contains(volumes, claim.Spec.VolumeName):
		return plan{}
	default:
		return wrongVolume(w, volumes[0])
	}
}

// wrongVolume is what is done about a claim that asks for another volume, which nobody can change.
func wrongVolume(w world, wanted string) plan {
	claim := w.claim
	waits := claim.Status.Phase == corev1.ClaimPending
	switch {
	case waits && w.users == nil:
		return plan{phase: v1alpha1.Failed, look: lookUsers}
	case waits && len(w.users) == 0:
		// It can't hold data. The community's operator left such claims where two SharedVolumes wanted one volume.
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", do: &change{what: deleteClaim, object: claim}}
	default:
		return failed("ClaimChanged", "PersistentVolumeClaim %s wants volume %s instead of %s%s: delete the claim when nobody needs it, and it "+
			"is made again", claim.Name, claim.Spec.VolumeName, wanted, usedBy(w.users))
	}
}

// withVolume brings the claim and its volume together.
func withVolume(owner *v1alpha1.SharedVolume, w world, volume *corev1.PersistentVolume) plan {
	if p := claimProblem(owner, w, volume.Name); p.phase != "" {
		return p
	}
	claim := w.claim
	apart := areApart(volume, claim)
	switch {
	case apart && !w.live:
		// The cache does not show a claim that has lost our label.
		return plan{phase: v1alpha1.Pending, look: lookLive}
	case (apart || claim == nil) && w.denied != "":
		return failed("NotAllowed", "%s", w.denied)
	case apart:
		return plan{phase: v1alpha1.Pending, reason: "Rebuilding", do: rejoining(volume, claim)}
	case claim == nil && volume.Status.Phase != corev1.VolumeAvailable && w.now.Sub(w.volumeMade) < settling:
		return plan{phase: v1alpha1.Pending, reason: "Creating", retry: settling}
	case claim == nil:
		return plan{phase: v1alpha1.Pending, reason: "Creating", do: &change{what: createClaim, object: newClaim(owner, volume.Name)}}
	}
	if adopting := adopting(owner, claim); adopting != nil {
		return plan{phase: v1alpha1.Pending, reason: "Adopting", do: adopting}
	}
	if handing := handOver(owner, w, volume); handing != nil {
		return plan{phase: v1alpha1.Pending, reason: "Adopting", do: handing}
	}
	if confining := confining(owner, w, volume); confining.phase != "" {
		return confining
	}
	return waiting(w, claim, volume)
}

// areApart tells whether a volume is for another claim than the one that is there. Without a UID it is open to that claim, but
// no more if that was bound before.
func areApart(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	uid := volume.Spec.ClaimRef.UID
	if claim == nil {
		return uid != ""
	}
	return (uid != "" && claim.UID != uid) || (uid == "" && claim.Status.Phase == corev1.ClaimLost)
}

// waiting is what is so when there is nothing left to do.
func waiting(w world, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) plan {
	age := w.now.Sub(claim.CreationTimestamp.Time)
	switch {
	case claim.Status.Phase == corev1.ClaimBound && w.noDriver:
		return plan{phase: v1alpha1.Ready, reason: "Bound", message: noDriverMessage}
	case claim.Status.Phase == corev1.ClaimBound:
		return plan{phase: v1alpha1.Ready, reason: "Bound"}
	case age < patience:
		return plan{phase: v1alpha1.Pending, reason: "Binding", retry: patience - age}
	default:
		return plan{
			phase: v1alpha1.Pending, reason: "Binding",
			message: fmt.Sprintf("waiting for Kubernetes to bind claim %s to volume %s; \"oc describe\" of both tells why it does not",
				claim.Name, volume.Name),
		}
	}
}

// ending hands over what a SharedVolume of the community's operator leaves, so that its finalizer can go.
func ending(owner *v1alpha1.SharedVolume, w world, volume *corev1.PersistentVolume) plan {
	p := plan{phase: v1alpha1.Deleting, reason: "Deleting"}
	others := slices.DeleteFunc(slices.Clone(owner.Finalizers), func(name string) bool { return name == CommunityFinalizer })
	if len(others) < len(owner.Finalizers) {
		if !w.live {
			// What stays without a mark stays for ever.
			p.look = lookLive
			return p
		}
		p.do = handOver(owner, w, volume)
		return p
	}
	p.message = "it goes when its finalizers have been dropped by those who set them: " + strings.Join(others, ", ")
	return p
}

func waitForFormer(kind, name string) plan {
	return plan{phase: v1alpha1.Pending, reason: "WaitingForFormer", message: fmt.Sprintf(
		"waiting for the end of %s %s of a former SharedVolume of this name, which comes when no pod uses it any more", kind, name)}
}

func failed(reason, format string, args ...any) plan {
	return plan{phase: v1alpha1.Failed, reason: reason, message: fmt.Sprintf(format, args...)}
}

// noDriverMessage tells a developer why a bound claim is of no use yet.
const noDriverMessage = "the claim is bound, but pods can't use it before the EFS driver is installed: ask an administrator of the " +
	"cluster to create the ClusterCSIDriver " + DriverName

func usedBy(pods []string) string {
	if len(pods) == 0 {
		return ""
	}
	return " (used by " + status.Shorten(pods) + ")"
}

func finalizers(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (finalizers: " + strings.Join(names, ", ") + ")"
}
