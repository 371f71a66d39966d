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
	// Interval is how often the vCenters are asked while they answer.
	Interval = poll.Interval
	// Soon is how long after a poll the next one begins, if something asks for it.
	Soon = 20 * time.Second
)

// Source reads what the vCenters are asked with: the configuration, the logins by server, and the CA certificates in PEM that are trusted
// besides those of the system.
type Source func(ctx context.Context) (config cloudconfig.Config, logins map[string]cloudconfig.Login, roots []byte, err error)

// Poller asks all vCenters on a schedule, and keeps the last answer of each. Nothing waits for it. After a restart, and without inputs, nothing
// is known.
type Poller struct {
	// Schedule follows the hash of the Source's inputs that there are.
	poll.Schedule
	Source Source
	// Want says what to look at. It is called before each poll.
	Want func(ctx context.Context) (Want, error)
	// After, if set, is called after each poll, in the same goroutine, with a Writer for each vCenter that has answered in it. The Writers are
	// for the call only. Want is with the failure domain of WithDefault. With again, the next poll comes soon.
	After func(ctx context.Context, seen Snapshot, want Want, writers map[string]Writer) (again bool)
	// Wake is called when the snapshot says something else. It must not block.
	Wake func()
	Now  func() time.Time
	Log  logr.Logger
	// Metrics may be nil.
	Metrics *poll.Metrics
	// Timeout of a request is poll.RequestTimeout, Budget of requests a minute and vCenter is DefaultBudget, and MaxRound of bytes of a poll of a
	// vCenter is DefaultMaxRound, if they are 0. Jitter is random by default.
	Timeout          time.Duration
	Budget, MaxRound int
	Jitter           func(time.Duration) time.Duration

	mutex    sync.Mutex
	snapshot Snapshot
	// polled is when the last poll ended, and failures how many in a row had an error.
	polled   time.Time
	failures int

	// What follows is of the goroutine that polls.
	sites sites
}

// Snapshot is what is known now.
func (p *Poller) Snapshot() Snapshot {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.snapshot
}

// Again makes the vCenters be asked soon: something in the cluster has changed that a poll looks at. After an error, the pause stays.
func (p *Poller) Again() { p.hurry(Soon) }

// AtOnce is Again without a pause after the last poll: it is for what somebody waits for, and for what happens once.
func (p *Poller) AtOnce() { p.hurry(0) }

func (p *Poller) hurry(pause time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.failures == 0 {
		p.Hasten(p.polled.Add(pause))
	}
}

// Start polls until ctx ends, and logs out. The manager calls it.
func (p *Poller) Start(ctx context.Context) error {
	p.Run(ctx, p.Tick)
	p.sites.disconnect(ctx)
	return nil
}

// Tick asks the vCenters if that is due, and returns how long to wait. Without inputs it logs out, forgets what they said, and waits for Follow.
func (p *Poller) Tick(ctx context.Context) time.Duration {
	hash, other, wait := p.Due(p.Now())
	switch {
	case hash == "":
		p.forget(ctx)
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
		return p.keep(broken(old, p.sites.config.VCenters, p.sites.err, p.Now()))
	}
	return p.poll(ctx, old)
}

// forget drops what the vCenters said: nobody can ask whether it is still so.
func (p *Poller) forget(ctx context.Context) {
	p.sites.disconnect(ctx)
	p.mutex.Lock()
	known := !p.snapshot.Taken.IsZero()
	p.snapshot, p.failures = Snapshot{}, 0
	p.mutex.Unlock()
	if known {
		p.Wake()
	}
}

// poll asks the vCenters, keeps what they say, and lets After act on it.
func (p *Poller) poll(ctx context.Context, old Snapshot) time.Duration {
	want, err := p.Want(ctx)
	if err != nil {
		p.Log.Error(err, "what the vCenters are to be asked can't be read: they are asked later")
		return p.postpone()
	}
	want = want.WithDefault(p.sites.config)
	asking, cancel := context.WithTimeout(ctx, poll.Timeout)
	defer cancel()
	answers := p.sites.look(asking, want, p.Now())
	if ctx.Err() != nil {
		return Interval
	}
	pause := p.keep(merge(old, p.sites.config.VCenters, answers, p.Now()))
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

// keep publishes a snapshot, says when to ask again, and wakes whoever acts on it if it says something else.
func (p *Poller) keep(seen Snapshot) time.Duration {
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

// postpone is for a poll that did not take place.
func (p *Poller) postpone() time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.failures++
	pause := poll.Lengthen(poll.Pause(p.failures), p.Jitter)
	p.AskAt(p.Now().Add(pause))
	return pause
}

// untrusted tells whether other CA certificates may help. The hash that Follow gets has a copy of those of the cluster, which may be behind.
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

// pause is how long to wait after a poll: the schedule, or less if there was an error that passes by itself.
func (p *Poller) pause(seen Snapshot) time.Duration {
	pause := Interval
	for _, one := range seen.VCenters {
		if one.Err != nil && one.Err.Reason != LoginRefused {
			pause = poll.Pause(p.failures)
		}
	}
	return poll.Lengthen(pause, p.Jitter)
}

// log says what changed, once.
func (p *Poller) log(old, seen Snapshot) {
	for _, one := range seen.VCenters {
		before, _ := old.Of(one.Server)
		switch {
		case one.Err != nil && (before.Err == nil || before.Err.Error() != one.Err.Error()):
			p.Log.Info("the vCenter does not answer: what is known of it stays", "vCenter", one.Server, "error", one.Err.Error())
		case one.Err == nil && before.Err != nil:
			p.Log.Info("the vCenter answers again", "vCenter", one.Server)
		}
	}
}

// sourceError makes an *Error of what the Source says.
func sourceError(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	return &Error{What: "read the configuration and the credentials", Reason: cloudconfig.InvalidCredentials, Why: err.Error(), Ended: ended(err)}
}
