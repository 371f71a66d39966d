// Package policy maintains the storage policy of a cluster in its vCenters. The policy places volumes on datastores with the cluster's tag. The
// operator tags the datastores of the failure domains.
//
// A plan depends on the last poll only. The Keeper executes the plan step by step. If a policy or category of another owner in a vCenter has a name
// that the cluster needs, the Keeper creates nothing in this vCenter. Decision 0045 defines which objects the cluster owns.
package policy

import (
	"context"
	"sync"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// State is the state of the policy.
type State struct {
	// Ready means that the policy exists and is correct in every vCenter that a failure domain names.
	Ready bool
	// Name is the name of the policy.
	Name string
	// Reason and Message describe a problem. Reason is one word, for a condition. Since is the time at which the problem began. Reason and Since stay
	// while the problem lasts. If Ready is true, the problem does not affect the policy.
	Reason, Message string
	Since           time.Time
	// Removed means that SetRemoved asked for the removal, and that the Keeper has nothing left to delete. Waits says what blocks the removal.
	Removed bool
	Waits   string
}

// Event describes a change in a vCenter, for a Kubernetes event.
type Event struct {
	// Reason and Message are the reason and the note of the Kubernetes event.
	Reason, Message string
}

// Keeper creates, updates and deletes the policy.
type Keeper struct {
	// Record is called after each change. It is not called for a change whose response was lost.
	Record func(Event)
	// Wake, if set, is called when the state changes. It must not block.
	Wake func()
	Now  func() time.Time

	mutex   sync.Mutex
	state   State
	removed bool

	// unsure are the steps whose response was lost in the last Sync. inUse are the vCenters where something used the policy at the last query. Only Sync
	// uses these two fields, and calls of Sync never overlap.
	unsure map[Step]bool
	inUse  map[string]bool
}

// SetRemoved sets whether the Keeper removes the policy. It returns true if the goal changes.
func (k *Keeper) SetRemoved(removed bool) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	changed := k.removed != removed
	if changed {
		// The old state is about the previous goal, so drop it.
		k.state = State{Name: k.state.Name}
	}
	k.removed = removed
	return changed
}

// State returns the current state.
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

// Sync compares the actual with the desired state, and makes changes one by one. vsphere.Poller calls Sync after each poll, as its function After. It
// returns true if another poll should follow soon, because something has changed or may have changed. Sync does not retry a change without a
// response. The next poll shows whether the change succeeded.
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
		// If the response of a step was lost twice, wait for the next regular poll before retrying the step.
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

// publish stores a state. If SetRemoved has changed the goal meanwhile, publish stores nothing and returns true.
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
