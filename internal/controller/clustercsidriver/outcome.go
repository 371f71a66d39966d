package clustercsidriver

import (
	"cmp"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// outcome is everything that a reconcile has seen and done. The conditions are computed from it.
type outcome struct {
	seen seen
	// applied is the result of applying; zero if nothing was applied.
	applied applied
	// changes include those of applying, migrating and replacing node pods.
	changes apply.ChangeSet
	moved   migration.Moved
	// rolled is the progress of a roll-out of node pods.
	rolled nodes.Progress
	// err is an error outside of the changes: of reading, rendering, or the finalizer.
	err error
	// unwanted is the result of NotWantedAnnotation.
	unwanted removalWish
	removal  removal
	// again is when to requeue even without an event.
	again time.Duration
}

// applied is the result of applying.
type applied struct {
	changes apply.ChangeSet
	// holds are the holds of seen, and those of failed applies.
	holds driver.Holds
	// deployment and daemonSet are the workloads after the apply; nil if absent.
	deployment *appsv1.Deployment
	daemonSet  *appsv1.DaemonSet
	// err is the error of reading them.
	err error
}

// removal is the progress of a removal; zero if there is none.
type removal struct {
	// inUse is the message about pods or PersistentVolumes that block a removal, and blocking how many of them count for the alert.
	inUse    string
	blocking int
	// removing: the removal has begun. waiting says what it waits for, and remaining is the number of objects and pods left.
	removing  bool
	waiting   string
	remaining int
	// removed: the removal is complete. sharesStatus: another operator of the same name writes the same status.
	removed, sharesStatus bool
	// left says which resources remain in the cloud.
	left string
}

// outcome returns the outcome of a reconcile that applied nothing.
func (s seen) outcome(err error) outcome { return outcome{seen: s, err: err} }

// failed adds an earlier error.
func (o outcome) failed(err error) outcome {
	o.err = errors.Join(err, o.err)
	return o
}

// holds returns which workloads were not applied, and why.
func (o *outcome) holds() driver.Holds {
	if o.applied.holds != nil {
		return o.applied.holds
	}
	return o.seen.holds
}

// live is the driver at the end of the reconcile. A workload that was not applied may be a predecessor's.
func (o *outcome) live() live {
	live := o.seen.live
	live.deployment, live.daemonSet = cmp.Or(o.applied.deployment, live.deployment), cmp.Or(o.applied.daemonSet, live.daemonSet)
	return live
}

// complete reports whether everything was applied, so that all objects have this version.
func (o *outcome) complete() bool {
	return o.err == nil && len(o.holds()) == 0 && len(o.changes) > 0 && len(o.changes.With(apply.Failed, apply.Terminating)) == 0
}

// sharesStatus reports whether another operator writes the same conditions.
func (o *outcome) sharesStatus() bool { return o.seen.migration.SharesStatus || o.removal.sharesStatus }
