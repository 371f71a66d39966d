package vsphere

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

const (
	// Interval is the time between polls while the vCenters answer.
	Interval = poll.Interval
	// Soon is the least time between the last poll and a poll that PollSoon requests.
	Soon = 20 * time.Second
)

// Source reads the configuration, the logins by server, and PEM CA certificates that the client trusts in addition to the system's.
type Source func(ctx context.Context) (config cloudconfig.Config, logins map[string]cloudconfig.Login, roots []byte, err error)

// Poller polls all vCenters on a schedule, and stores the last answer of each. Callers never wait for it. After a restart, and without inputs, it has
// no answer.
type Poller struct {
	// Schedule polls at once if the hash of the Source's inputs changes.
	poll.Schedule
	Source Source
	// Want is called before each poll. Its result selects what the poll reads.
	Want func(ctx context.Context) (Want, error)
	// After, if set, is called after each poll, in the same goroutine, with a Writer for each vCenter that answered. Writers are valid only during the
	// call. Argument "want" includes the failure domain of WithDefault. If After returns true, the next poll follows soon.
	After func(ctx context.Context, seen Snapshot, want Want, writers map[string]Writer) (again bool)
	// Wake is called when the snapshot changes. It must not block.
	Wake func()
	Now  func() time.Time
	Log  logr.Logger
	// Metrics may be nil.
	Metrics *poll.Metrics
	// Timeout limits a request. If it is 0, poll.RequestTimeout applies. Jitter lengthens a pause. If it is nil, the Poller lengthens each pause by a
	// random time.
	Timeout time.Duration
	Jitter  func(time.Duration) time.Duration
	// Budget limits the requests per minute to each vCenter. MaxAnswer limits the size of one response, in bytes. MaxRound limits the total size of the
	// responses of one vCenter in one poll, in bytes. If a field is 0, its default applies: DefaultBudget, DefaultMaxAnswer or DefaultMaxRound.
	Budget, MaxAnswer, MaxRound int

	mutex    sync.Mutex
	snapshot Snapshot
	// polled is the end of the last poll. failures is the number of failed polls in a row.
	polled   time.Time
	failures int

	// sites has a client for each configured vCenter. Only the polling goroutine uses it.
	sites sites
}

// Snapshot returns the current snapshot.
func (p *Poller) Snapshot() Snapshot {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.snapshot
}

// PollSoon schedules a poll soon. Callers use it after a change in the cluster that affects polls. If the last poll failed, the next poll still waits
// for the end of the pause.
func (p *Poller) PollSoon() { p.pollWithin(Soon) }

// PollNow schedules a poll at once, unless the last poll failed: see PollSoon. Use it for rare changes, and for changes whose result a user waits
// for.
func (p *Poller) PollNow() { p.pollWithin(0) }

func (p *Poller) pollWithin(pause time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.failures == 0 {
		p.AskBefore(p.polled.Add(pause))
	}
}

// Start polls until ctx ends, and then logs out. The manager calls it.
func (p *Poller) Start(ctx context.Context) error {
	p.Run(ctx, p.Tick)
	p.sites.disconnect(ctx)
	return nil
}

// Tick polls if a poll is due, and returns how long to wait. Without inputs, it logs out, drops the snapshot, and waits for SetInputs.
func (p *Poller) Tick(ctx context.Context) time.Duration {
	hash, other, wait := p.Due(p.Now())
	switch {
	case hash == "":
		p.reset(ctx)
		return Interval
	case wait > 0:
		return wait
	}
	old := p.Snapshot()
	if other || p.sites.err != nil || untrusted(old) {
		p.sites.configure(ctx, p)
	}
	if ctx.Err() != nil {
		return Interval
	}
	if p.sites.err != nil {
		return p.store(broken(old, p.sites.config.VCenters, p.sites.err, p.Now()))
	}
	return p.poll(ctx, old)
}

// reset drops the snapshot, because polls without inputs can't update it.
func (p *Poller) reset(ctx context.Context) {
	p.sites.disconnect(ctx)
	p.mutex.Lock()
	known := !p.snapshot.Taken.IsZero()
	p.snapshot, p.failures = Snapshot{}, 0
	p.mutex.Unlock()
	if known {
		p.Wake()
	}
}

// poll queries the vCenters, stores the answers, and calls After.
func (p *Poller) poll(ctx context.Context, old Snapshot) time.Duration {
	want, err := p.Want(ctx)
	if err != nil {
		p.Log.Error(err, "postponed a poll of the vCenters, because the operator can't read the objects that the poll needs")
		return p.postpone()
	}
	want = want.WithDefault(p.sites.config)
	asking, cancel := context.WithTimeout(ctx, poll.Timeout)
	defer cancel()
	answers := p.sites.observe(asking, want, p.Now())
	if ctx.Err() != nil {
		return Interval
	}
	pause := p.store(merge(old, p.sites.config.VCenters, answers, p.Now()))
	if p.After == nil {
		return pause
	}
	acting, cancel := context.WithTimeout(ctx, poll.Timeout)
	defer cancel()
	if p.After(acting, p.Snapshot(), want, p.sites.writers(answers)) {
		p.AskAt(p.Now().Add(Soon))
		return Soon
	}
	return pause
}

// store publishes a snapshot, schedules the next poll, and calls Wake if the snapshot changed.
func (p *Poller) store(seen Snapshot) time.Duration {
	p.mutex.Lock()
	old := p.snapshot
	p.snapshot, p.polled = seen, p.Now()
	p.failures++
	if !failing(seen) {
		p.failures = 0
	}
	pause := p.pause(seen)
	p.AskAt(p.polled.Add(pause))
	p.mutex.Unlock()
	for _, one := range seen.VCenters {
		p.Metrics.Answered(one.Answered, one.Server)
	}
	p.log(old, seen)
	if !same(old, seen) {
		p.Wake()
	}
	return pause
}

// postpone schedules the next poll after a poll that did not take place.
func (p *Poller) postpone() time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.failures++
	pause := poll.Lengthen(poll.Pause(p.failures), p.Jitter)
	p.AskAt(p.Now().Add(pause))
	return pause
}

// untrusted reports whether a vCenter has failed because no trusted CA has signed its certificate. In that case, the poller reads the certificates
// again even if the hash of the inputs is unchanged. The hash covers only a copy of the cluster's certificates, and this copy can be outdated.
func untrusted(seen Snapshot) bool {
	return slices.ContainsFunc(seen.VCenters, func(one VCenter) bool { return one.Err != nil && one.Err.Reason == UntrustedCertificate })
}

func failing(seen Snapshot) bool {
	for _, one := range seen.VCenters {
		if one.Err != nil {
			return true
		}
	}
	return false
}

// pause returns the time until the next poll. It is Interval, or less after an error that may be temporary.
func (p *Poller) pause(seen Snapshot) time.Duration {
	pause := Interval
	for _, one := range seen.VCenters {
		if one.Err != nil && one.Err.Reason != LoginRefused {
			pause = poll.Pause(p.failures)
		}
	}
	return poll.Lengthen(pause, p.Jitter)
}

// log logs each change once.
func (p *Poller) log(old, seen Snapshot) {
	for _, one := range seen.VCenters {
		before, _ := old.Of(one.Server)
		switch {
		case one.Err != nil && (before.Err == nil || before.Err.Error() != one.Err.Error()):
			p.Log.Info("the vCenter does not answer: its last answer stays in effect", "vCenter", one.Server, "error", one.Err.Error())
		case one.Err == nil && before.Err != nil:
			p.Log.Info("the vCenter answers again", "vCenter", one.Server)
		}
	}
}

// sourceError converts an error of the Source to an *Error.
func sourceError(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	return &Error{What: "read the configuration and the credentials", Reason: cloudconfig.InvalidCredentials, Why: err.Error(), Ended: ended(err)}
}
