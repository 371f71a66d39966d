// Package policy keeps the storage policy of a cluster in its vCenters: a tag category, a tag on the datastores of each failure domain, and the
// policy that places volumes on what has the tag.
//
// A plan is pure and follows from the last poll alone. The Keeper takes one step of it after the other. It makes nothing before the checks have
// answered, or while they refuse the driver. Decision 0045 says what is the cluster's own.
package policy

import (
	"context"
	"sync"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// State is what is known of the policy.
type State struct {
	// Ready means that the policy is in every vCenter that a failure domain names, and is as it should be.
	Ready bool
	// Name is that of the policy.
	Name string
	// Reason is one word, and Message a sentence or more, if something is wrong, since Since. They stay the same while it lasts. With Ready, they
	// are for people to know, and nothing is wrong.
	Reason, Message string
	Since           time.Time
	// Removed means that it was to be removed, and nothing of it is left that is ours. Waits says what that waits for.
	Removed bool
	Waits   string
}

// Deed is something that was done in a vCenter, for an event.
type Deed struct {
	// Reason is that of the event, Message a sentence.
	Reason, Message string
}

// Keeper makes, changes and removes the policy.
type Keeper struct {
	// Tell is called for each deed, after it was done. Nobody hears of a deed whose answer was lost.
	Tell func(Deed)
	// Wake, if set, is called when the state says something else. It must not block.
	Wake func()
	Now  func() time.Time

	mutex   sync.Mutex
	state   State
	removed bool

	// unsure are the steps whose answer was lost at the last Sync, inUse the vCenters where something used the policy. Only Sync uses them, which
	// is never called twice at a time.
	unsure map[Step]bool
	inUse  map[string]bool
}

// SetRemoved says whether the policy is to be removed instead of kept. It returns true if that is news.
func (k *Keeper) SetRemoved(removed bool) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	changed := k.removed != removed
	if changed {
		// What was found before is no answer to this.
		k.state = State{Name: k.state.Name}
	}
	k.removed = removed
	return changed
}

// State is what is known now.
func (k *Keeper) State() State {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.state
}

func (k *Keeper) toRemove() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.removed
}

// Sync compares what is there with what should be, and makes changes, one at a time. It is vsphere.Poller's After. It returns true if the vCenters
// are to be asked again soon: something was changed, or may have been. A change without an answer is not repeated: the next poll shows whether it
// was made.
func (k *Keeper) Sync(ctx context.Context, seen vsphere.Snapshot, want vsphere.Want, writers map[string]vsphere.Writer) (again bool) {
	removed := k.toRemove()
	all, lost := sites(seen, want)
	r := &run{keeper: k, writers: writers, removed: removed, id: want.InfrastructureID, sites: all, unsure: map[Step]bool{}}
	for _, s := range all {
		if s.inUse = k.inUse[s.Server] && !s.answers(); s.answers() {
			r.work(ctx, s)
		}
	}
	for step := range r.unsure {
		// A step whose answers are always lost is tried at the pace of the schedule.
		again = again || !k.unsure[step]
	}
	k.unsure, k.inUse = r.unsure, map[string]bool{}
	for _, s := range all {
		k.inUse[s.Server] = s.inUse
	}
	again = again || r.changed
	if ctx.Err() != nil || len(all) == 0 && !removed {
		return again
	}
	return k.publish(removed, r.report(places(want), lost)) || again
}

// publish keeps a state, unless it answers what is asked no more. Then it returns true.
func (k *Keeper) publish(removed bool, next report) (outdated bool) {
	k.mutex.Lock()
	before := k.state
	if outdated = k.removed != removed; !outdated {
		k.state = next.state(before, k.Now())
	}
	changed := k.state != before
	k.mutex.Unlock()
	if changed && k.Wake != nil {
		k.Wake()
	}
	return outdated
}
