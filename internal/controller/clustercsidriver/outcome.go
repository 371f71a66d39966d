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

// outcome is everything that a reconcile has seen and done. The operator computes the conditions from the outcome.
type outcome struct {
	seen seen
	// applied is the result of applying objects. It is the zero value if the operator applied nothing.
	applied applied
	// changes has the changes from applying, from migrating, and from replacing node pods.
	changes apply.ChangeSet
	moved   migration.Moved
	// rolled is the progress of a roll-out of node pods.
	rolled nodes.Progress
	// err is an error that belongs to no change: an error of reading, of rendering, or of the finalizer.
	err error
	// unwanted says what NotWantedAnnotation asks for.
	unwanted removalWish
	removal  removal
	// again is the delay until the next reconcile if no event comes earlier; 0 means never.
	again time.Duration
}

// applied is the result of applying objects.
type applied struct {
	changes apply.ChangeSet
	// holds has the holds of seen, and a hold for each workload that the operator could not apply.
	holds driver.Holds
	// deployment and daemonSet are the workloads after the apply. A nil workload is absent.
	deployment *appsv1.Deployment
	daemonSet  *appsv1.DaemonSet
	// err is the error of reading the workloads after the apply.
	err error
}

// removal is the progress of a removal. It is the zero value if the operator removes nothing.
type removal struct {
	// inUse is the message about pods or other objects that block the removal. It is empty if nothing blocks the removal. blocking is the number of
	// these objects that count for the alert.
	inUse    string
	blocking int
	// removing is true once the removal has begun. waiting says what the removal waits for. remaining is the number of objects and pods that still
	// exist.
	removing  bool
	waiting   string
	remaining int
	// removed is true if the removal is complete. sharesStatus is true if another operator of the same name writes the same status.
	removed, sharesStatus bool
	// left says which resources remain in the cloud. It is empty if no resource remains.
	left string
}

// outcome returns the outcome of a reconcile that applied nothing.
func (s seen) outcome(err error) outcome { return outcome{seen: s, err: err} }

// failed adds an earlier error.
func (o outcome) failed(err error) outcome {
	o.err = errors.Join(err, o.err)
	return o
}

// holds returns the workloads that the operator did not apply, each with the reason.
func (o *outcome) holds() driver.Holds {
	if o.applied.holds != nil {
		return o.applied.holds
	}
	return o.seen.holds
}

// live returns the driver at the end of the reconcile. A workload that the operator did not apply can belong to a predecessor.
func (o *outcome) live() live {
	live := o.seen.live
	live.deployment, live.daemonSet = cmp.Or(o.applied.deployment, live.deployment), cmp.Or(o.applied.daemonSet, live.daemonSet)
	return live
}

// complete reports whether the operator applied everything. In that case, all objects come from this version.
func (o *outcome) complete() bool {
	return o.err == nil && len(o.holds()) == 0 && len(o.changes) > 0 && len(o.changes.With(apply.Failed, apply.Terminating)) == 0
}

// sharesStatus reports whether another operator writes the same conditions.
func (o *outcome) sharesStatus() bool { return o.seen.migration.SharesStatus || o.removal.sharesStatus }
