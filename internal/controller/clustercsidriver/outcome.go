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

// outcome is what a reconcile has seen and done; the conditions follow from it.
type outcome struct {
	seen seen
	// applied is what applying has led to; zero if nothing was applied.
	applied applied
	// changes are those of applying, of migrating and of replacing node pods.
	changes apply.ChangeSet
	moved   migration.Moved
	// rolled is how far a roll-out of node pods is.
	rolled nodes.Progress
	// err is what went wrong outside of the changes: reading, rendering, the finalizer.
	err error
	// unwanted says what comes of the annotation that the driver is not wanted.
	unwanted removalWish
	removal  removal
	// again is when to look once more although no event may come.
	again time.Duration
}

// applied is what applying has led to.
type applied struct {
	changes apply.ChangeSet
	// holds are those of seen, and those of what could not be applied.
	holds driver.Holds
	// deployment and daemonSet are as they are after that; nil where the cache and our own writes know none.
	deployment *appsv1.Deployment
	daemonSet  *appsv1.DaemonSet
	// err means that these could not be read.
	err error
}

// removal is how far the driver is removed; zero if it is not to be.
type removal struct {
	// inUse says which pods or PersistentVolumes hold up a removal that has not begun, and blocking how many pods they are.
	inUse    string
	blocking int
	// removing means that it has begun, waiting says for what, and remaining how many objects and pods have still to go.
	removing  bool
	waiting   string
	remaining int
	// removed means that it is complete, sharesStatus that another operator of the same name writes the status too.
	removed, sharesStatus bool
	// left says what is left in the cloud, where the operator makes something there.
	left string
}

// outcome is that of a trip that ends before anything is applied.
func (s seen) outcome(err error) outcome { return outcome{seen: s, err: err} }

// failed is the outcome with what went wrong before.
func (o outcome) failed(err error) outcome {
	o.err = errors.Join(err, o.err)
	return o
}

// holds say which workload was not applied, and why.
func (o *outcome) holds() driver.Holds {
	if o.applied.holds != nil {
		return o.applied.holds
	}
	return o.seen.holds
}

// live is what there is of the driver at the end of the trip. A workload that was not applied may be a predecessor's, as it was seen.
func (o *outcome) live() live {
	live := o.seen.live
	live.deployment, live.daemonSet = cmp.Or(o.applied.deployment, live.deployment), cmp.Or(o.applied.daemonSet, live.daemonSet)
	return live
}

// complete reports whether everything was applied, so that all that is there is of this version.
func (o *outcome) complete() bool {
	return o.err == nil && len(o.holds()) == 0 && len(o.changes) > 0 && len(o.changes.With(apply.Failed, apply.Terminating)) == 0
}

// sharesStatus reports whether somebody else writes the same conditions.
func (o *outcome) sharesStatus() bool { return o.seen.migration.SharesStatus || o.removal.sharesStatus }
