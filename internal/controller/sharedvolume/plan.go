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

// patience is how long Kubernetes may take to bind a PVC before the status reports the wait. Kubernetes needs less time even to bind 10,000 new PVCs.
// With a shorter patience, each of these 10,000 SharedVolumes would cost two more writes of its status.
const patience = 10 * time.Minute

// seen is the observed state of a SharedVolume's objects. A nil object is absent.
type seen struct {
	// plain is the volume with the plainVolumeName. unique is the volume with the uniqueVolumeName.
	plain, unique *corev1.PersistentVolume
	pvc           *corev1.PersistentVolumeClaim
	// live is true if the operator read from the API server. It is false for reads from the cache, which has only objects with our label.
	live   bool
	limits limits
	// lacks has the status fields that the CRD lacks.
	lacks []string
	// noDriver is true if the EFS driver is not installed.
	noDriver bool
	// users are the pods that use the PVC. It is nil if the operator has not read the pods.
	users []string
	// askable is true if the operator can ask AWS about the share, and has not done so yet. placement is the answer of AWS.
	askable   bool
	placement efs.Placement
	// outsideZone are the pods that use the PVC outside of the share's zone. It is nil if the operator has not read the pods.
	outsideZone []string
	now         time.Time
	// pvcMade is when this process created the PVC, by our clock. It is zero if this process did not create the PVC.
	pvcMade time.Time
}

// query is an expensive read. The operator makes a query only if a plan needs it.
type query int

const (
	// queryLive reads the objects again, from the API server instead of the cache.
	queryLive query = iota + 1
	queryUsers
	// queryShare asks AWS. That can take seconds, so queryShare comes before reads that must be fresh.
	queryShare
	queryPods
)

// plan is the next step. It also has the status of the SharedVolume until the step is done.
type plan struct {
	phase v1alpha1.Phase
	// reason and message explain the phase.
	reason, message string
	bound           bool
	// volume is the name of the volume. It is empty while the operator does not know the name.
	volume string
	// mountable is the new state of condition Mountable. It is nil if the operator must ask AWS first.
	mountable *mountability
	// query is the read that comes before all else. It is 0 if the plan needs no read.
	query query
	// do is the write to make. It is nil if the plan makes no write.
	do *change
	// retry is the time until a known event that no watch covers. It is 0 if no such event is known. paced is true if the operator retries at growing
	// intervals, because the cause may be an object that it does not watch.
	retry time.Duration
	paced bool
}

// next returns the plan for a SharedVolume. The plan never changes objects with another owner.
func next(owner *v1alpha1.SharedVolume, w seen) plan {
	volume := volumeOf(owner, w)
	p := forPair(owner, w, volume)
	p.mountable = evaluate(owner, w, volume)
	if p.mountable == nil && owner.DeletionTimestamp == nil && p.query == 0 && p.do == nil {
		return plan{phase: p.phase, query: queryShare}
	}
	if p.phase == v1alpha1.Failed && p.query == 0 {
		if !w.live {
			// The cache has only objects with our label. The cluster may have other objects with these names.
			return plan{phase: p.phase, reason: p.reason, query: queryLive}
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

// forPair returns the plan for the volume and the PVC, without condition Mountable.
func forPair(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) plan {
	var p plan
	switch {
	case owner.DeletionTimestamp != nil:
		p = ending(owner, w, volume)
	case volume == nil:
		p = firstPlan(owner, w, nil, pvcProblem, nameProblem, shareProblem, zoneUnknown, create)
	default:
		p = firstPlan(owner, w, volume, volumeProblem, volumeTaken, pvcProblem, rejoin, adopt, confine, nudge, waitForBinding)
		p.volume = volume.Name
	}
	if w.pvc != nil && isPVCOf(w.pvc, owner) {
		p.bound = w.pvc.Status.Phase == corev1.ClaimBound
	}
	return p
}

// cutOver returns the next change of the migration from the community's operator. It returns nil if nothing is left to migrate. The last change
// removes the finalizer of the community's operator.
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

// ending returns the plan for a SharedVolume that is being deleted. It completes the migration from the community's operator, because the finalizer
// of that operator would block the deletion.
func ending(owner *v1alpha1.SharedVolume, w seen, volume *corev1.PersistentVolume) plan {
	p := plan{phase: v1alpha1.Deleting, reason: "Deleting"}
	others := slices.DeleteFunc(slices.Clone(owner.Finalizers), func(name string) bool { return name == CommunityFinalizer })
	if len(others) < len(owner.Finalizers) {
		if !w.live {
			// The migration must mark the volume first, because the operator could never delete a volume without our annotations.
			p.query = queryLive
			return p
		}
		p.do = cutOver(owner, w, volume)
		return p
	}
	if volume != nil && volume.DeletionTimestamp == nil && isOpen(volume) {
		// This may be the last reconcile of the SharedVolume, so the operator now sets the UID that the volume lacks (see isOpen).
		if p.query = queryLive; w.live {
			p.query, p.do = 0, marking(owner, w, volume)
		}
		return p
	}
	p.message = "waiting for other controllers to remove their finalizers: " + strings.Join(others, ", ")
	return p
}

func waitForPrevious(pvc string) *plan {
	return &plan{phase: v1alpha1.Pending, reason: "WaitingForFormer", message: "waiting for the deletion of PVC " + pvc +
		" of a deleted SharedVolume of the same name; pods may still use the PVC"}
}

func failed(reason, format string, args ...any) *plan {
	return &plan{phase: v1alpha1.Failed, reason: reason, message: fmt.Sprintf(format, args...)}
}

// noDriverMessage tells a developer why pods can't mount a bound PVC.
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
