package sharedvolume

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// patience is how long Kubernetes may take to bind a PVC before the status reports the wait: longer than it
// takes for 10,000 at once, or each of them would cost two writes more.
const patience = 10 * time.Minute

// seen is what the cluster has of a SharedVolume's names; nil means absent.
type seen struct {
	// plain and unique are the volumes of the two names that it may have.
	plain, unique *corev1.PersistentVolume
	pvc           *corev1.PersistentVolumeClaim
	// live is false if this was read from the cache, which holds only what carries our label.
	live bool
	// limits are what the namespace may use.
	limits limits
	// lacks are the fields that the CRD's status does not have.
	lacks []string
	// noDriver is true if no driver is installed that could mount the volume.
	noDriver bool
	// users are the pods that use the PVC; nil if nobody has looked.
	users []string
	// askable is true as long as AWS could be asked about the share, and has not been. placement is its answer.
	askable   bool
	placement efs.Placement
	// outsideZone are the pods that use the PVC outside of the zone of the share; nil if nobody has looked.
	outsideZone []string
	now         time.Time
	// pvcMade is when we made the PVC, by our clock; zero if an operator before us did.
	pvcMade time.Time
}

// look is something that a plan needs to know, and that is read only then.
type look int

const (
	// lookLive reads all from the cluster.
	lookLive look = iota + 1
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
	bound           bool
	// volume is the name of the volume, once it is known.
	volume string
	// mountable is what AWS says about mounting it; nil if that stays as it was reported before.
	mountable *mountability
	// look is what to find out before anything else.
	look look
	// do is the one write to make; nil if there is none.
	do *change
	// retry is when to look again at what is known to be due; 0 for never. Paced means to look again at what is not watched, at growing
	// intervals.
	retry time.Duration
	paced bool
}

// next decides what to do for a SharedVolume. It never touches what belongs to somebody else.
func next(owner *v1alpha1.SharedVolume, w seen) plan {
	volume := volumeOf(owner, w)
	p := forPair(owner, w, volume)
	p.mountable = evaluate(owner, w, volume)
	if p.mountable == nil && owner.DeletionTimestamp == nil && p.look == 0 && p.do == nil {
		return plan{phase: p.phase, look: lookShare}
	}
	if p.phase == v1alpha1.Failed && p.look == 0 {
		if !w.live {
			// What the cache does not show may be there without our label.
			return plan{phase: p.phase, reason: p.reason, look: lookLive}
		}
		p.do = cutOver(owner, w, volume)
	}
	if p.phase == v1alpha1.Ready && p.message == "" {
		p.message = p.mountable.problem()
	}
	if p.retry == 0 && w.placement.Reason == efs.ReasonAccessPointNotFound {
		p.retry = restOfListing(owner, w)
	}
	p.paced = p.phase == v1alpha1.Failed || (p.phase == v1alpha1.Pending && p.message != "") || len(w.outsideZone) > 0
	return p
}

// forPair decides by the volume and the PVC alone.
func forPair(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) plan {
	var p plan
	switch {
	case owner.DeletionTimestamp != nil:
		p = ending(owner, w, volume)
	case volume == nil:
		p = decide(owner, w, nil, pvcProblem, nameProblem, shareProblem, zoneUnknown, create)
	default:
		p = decide(owner, w, volume, volumeProblem, volumeTaken, pvcProblem, rejoin, adopt, confine, nudge, waitForBinding)
		p.volume = volume.Name
	}
	if w.pvc != nil && isPVCOf(w.pvc, owner) {
		p.bound = w.pvc.Status.Phase == corev1.ClaimBound
	}
	return p
}

// cutOver is what is left to do until the community's operator is not needed any more, so that its finalizer can go; nil if
// nothing is.
func cutOver(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) *change {
	dropping := dropping(owner)
	if dropping == nil {
		return nil
	}
	if volume != nil && volume.DeletionTimestamp == nil {
		if marking := marking(owner, w, volume); marking != nil {
			return marking
		}
	}
	if w.pvc != nil && w.pvc.DeletionTimestamp == nil && isPVCOf(w.pvc, owner) {
		if adopting := adopting(owner, w.pvc); adopting != nil {
			return adopting
		}
	}
	return dropping
}

// ending hands over what a SharedVolume of the community's operator leaves, so that its finalizer can go.
func ending(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) plan {
	p := plan{phase: v1alpha1.Deleting, reason: "Deleting"}
	others := slices.DeleteFunc(slices.Clone(owner.Finalizers), func(name string) bool { return name == CommunityFinalizer })
	if len(others) < len(owner.Finalizers) {
		if !w.live {
			// What stays without a mark stays for ever.
			p.look = lookLive
			return p
		}
		p.do = cutOver(owner, w, volume)
		return p
	}
	if volume != nil && volume.DeletionTimestamp == nil && isOpen(volume) {
		// It may be the last look before the SharedVolume has gone.
		if p.look = lookLive; w.live {
			p.look, p.do = 0, marking(owner, w, volume)
		}
		return p
	}
	p.message = "waiting for other controllers to remove their finalizers: " + strings.Join(others, ", ")
	return p
}

func waitForPrevious(pvc string) *plan {
	return &plan{phase: v1alpha1.Pending, reason: "WaitingForFormer", message: "waiting for the deletion of PVC " + pvc +
		" of a deleted SharedVolume of the same name, which pods may still use"}
}

func failed(reason, format string, args ...any) *plan {
	return &plan{phase: v1alpha1.Failed, reason: reason, message: fmt.Sprintf(format, args...)}
}

// noDriverMessage says to a developer why a bound PVC is of no use yet.
const noDriverMessage = "the PVC is bound, but pods can't use it until the EFS driver is installed: ask a cluster " +
	"administrator to create ClusterCSIDriver " + efs.DriverName

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
