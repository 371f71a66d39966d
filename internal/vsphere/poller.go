package vsphere

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Source reads what the vCenters are asked with: the configuration, the logins by server, and the CA certificates in PEM that are trusted
// besides those of the system.
type Source func(ctx context.Context) (config Config, logins map[string]Login, roots []byte, err error)

// Poller asks all vCenters on a schedule, and keeps the last answer of each. Nothing waits for it.
type Poller struct {
	Source Source
	// Want says what to look at. It is called before each poll.
	Want func(ctx context.Context) (Want, error)
	// After, if set, is called after each poll, in the same goroutine, with a Writer for each vCenter that has answered. With again, the next
	// poll comes soon.
	After func(ctx context.Context, seen Snapshot, want Want, writers map[string]Writer) (again bool)
	// Wake is called when the snapshot says something else. It must not block.
	Wake func()
	Now  func() time.Time
	Log  logr.Logger

	mutex    sync.Mutex
	snapshot Snapshot
	wanted   string
}

// Snapshot is what is known now.
func (p *Poller) Snapshot() Snapshot {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.snapshot
}

// Follow says which inputs the Source has now, by a hash; empty if they are absent. Another hash makes the vCenters be asked at once.
func (p *Poller) Follow(hash string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.wanted = hash
}

// Again makes the vCenters be asked soon: something in the cluster has changed that a poll looks at.
func (p *Poller) Again() {}

// NeedLeaderElection is what the manager asks: one copy of the operator asks the vCenters.
func (p *Poller) NeedLeaderElection() bool { return true }

// Start polls until ctx ends, and logs out. The manager calls it.
func (p *Poller) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
