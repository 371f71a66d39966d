package clustercsidriver

import (
	"maps"
	"time"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// outcome is what a reconcile has seen and done; the conditions follow from it.
type outcome struct {
	seen seen
	// changes are those of applying, of migrating and of replacing node pods.
	changes apply.ChangeSet
	moved   migration.Moved
	// unapplied are workloads that were held beside those of seen.holds, because something that they need could not be applied.
	unapplied driver.Holds
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

// holds say which workload was not applied, and why.
func (o *outcome) holds() driver.Holds {
	all := driver.Holds{}
	maps.Copy(all, o.seen.holds)
	maps.Copy(all, o.unapplied)
	return all
}

// complete reports whether everything was applied, so that all that is there is of this version.
func (o *outcome) complete() bool {
	return o.err == nil && len(o.holds()) == 0 && len(o.changes) > 0 && len(o.changes.With(apply.Failed, apply.Terminating)) == 0
}

// sharesStatus reports whether somebody else writes the same conditions.
func (o *outcome) sharesStatus() bool { return o.seen.migration.SharesStatus || o.removal.sharesStatus }
