// Package policy keeps the storage policy of a cluster in its vCenters: a tag category, a tag on the datastores of each failure domain, and the
// policy that places volumes on what has the tag.
package policy

import (
	"context"
	"sync"
	"time"

	"github.com/csi-operators/csi-operators/internal/vsphere"
)

// Name is that of the storage policy of a cluster (openshift/vmware-vsphere-csi-driver-operator 030ff0e3,
// pkg/operator/storageclasscontroller/vmware.go).
func Name(infrastructureID string) string { return "openshift-storage-policy-" + infrastructureID }

// State is what is known of the policy.
type State struct {
	// Ready means that the policy is in every vCenter, and is as it should be.
	Ready bool
	// Name is that of the policy.
	Name string
	// Reason is one word, and Message a sentence, if something is wrong, since Since. They stay the same while it lasts.
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
	// Tell is called for each deed, after it was done.
	Tell func(Deed)
	Now  func() time.Time

	mutex   sync.Mutex
	state   State
	removed bool
}

// Sync compares what is there with what should be, and makes changes. It is vsphere.Poller's After.
func (k *Keeper) Sync(ctx context.Context, seen vsphere.Snapshot, want vsphere.Want, writers map[string]vsphere.Writer) (again bool) {
	return false
}

// SetRemoved says whether the policy is to be removed instead of kept. It returns true if that is news.
func (k *Keeper) SetRemoved(removed bool) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	changed := k.removed != removed
	k.removed = removed
	return changed
}

// State is what is known now.
func (k *Keeper) State() State {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.state
}
