package vsphere

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/csi-operators/csi-operators/internal/vsphere/cloudconfig"
)

const (
	// Interval is how often the vCenters are asked while they answer.
	Interval = 5 * time.Minute
	// firstPause is the pause after an error, which doubles up to Interval.
	firstPause = 30 * time.Second
	// Soon is how long after a poll the next one begins, if something asks for it.
	Soon = 20 * time.Second
	// pollTimeout bounds one poll, with all its requests.
	pollTimeout = 2 * time.Minute
	// jitter is how much longer a pause can get, as a part of it, so that not all clusters of a vCenter ask at once.
	jitter = 0.1
)

// Source reads what the vCenters are asked with: the configuration, the logins by server, and the CA certificates in PEM that are trusted
// besides those of the system.
type Source func(ctx context.Context) (config cloudconfig.Config, logins map[string]cloudconfig.Login, roots []byte, err error)

// Poller asks all vCenters on a schedule, and keeps the last answer of each. Nothing waits for it. After a restart, and without inputs, nothing
// is known.
type Poller struct {
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
	Metrics *Metrics
	// Timeout of a request and Budget of requests a minute and vCenter are DefaultTimeout and DefaultBudget, if they are 0. Jitter is random by default.
	Timeout time.Duration
	Budget  int
	Jitter  func(time.Duration) time.Duration

	mutex    sync.Mutex
	snapshot Snapshot
	// wanted is the hash of the Source's inputs that there are now.
	wanted  string
	changed chan struct{}
	// next is when to poll again, polled when the last poll ended, and failures how many in a row had an error.
	next, polled time.Time
	failures     int

	// What follows is of the goroutine that polls. asked is the hash that the sites were made with.
	asked string
	sites sites
}

// Snapshot is what is known now.
func (p *Poller) Snapshot() Snapshot {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.snapshot
}

// Follow says which inputs the Source has now, by a hash; empty if they are absent. Another hash makes the vCenters be asked at once. It is
// cheap, and called at each trip.
func (p *Poller) Follow(hash string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if hash == p.wanted {
		return
	}
	p.wanted = hash
	p.signal()
}

// Again makes the vCenters be asked soon: something in the cluster has changed that a poll looks at. After an error, the pause stays.
func (p *Poller) Again() { p.hurry(Soon) }

// AtOnce is Again without a pause after the last poll: it is for what somebody waits for, and for what happens once.
func (p *Poller) AtOnce() { p.hurry(0) }

func (p *Poller) hurry(pause time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if at := p.polled.Add(pause); p.failures == 0 && at.Before(p.next) {
		p.next = at
		p.signal()
	}
}

// signal wakes Start. The mutex is held.
func (p *Poller) signal() {
	select {
	case p.wakes() <- struct{}{}:
	default:
	}
}

// wakes is made on first use. The mutex is held.
func (p *Poller) wakes() chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{}, 1)
	}
	return p.changed
}

// NeedLeaderElection is what the manager asks: one copy of the operator asks the vCenters.
func (p *Poller) NeedLeaderElection() bool { return true }

// Start polls until ctx ends, and logs out. The manager calls it.
func (p *Poller) Start(ctx context.Context) error {
	p.mutex.Lock()
	changed := p.wakes()
	p.mutex.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			p.sites.disconnect(ctx)
			return nil
		case <-timer.C:
		case <-changed:
		}
		timer.Reset(p.Tick(ctx))
	}
}

// Tick asks the vCenters if that is due, and returns how long to wait. Without inputs it logs out, forgets what they said, and waits for Follow.
func (p *Poller) Tick(ctx context.Context) time.Duration {
	p.mutex.Lock()
	hash, now, old := p.wanted, p.Now(), p.snapshot
	due, rest := hash != p.asked || !now.Before(p.next), p.next.Sub(now)
	p.mutex.Unlock()
	switch {
	case hash == "":
		p.forget(ctx)
		return Interval
	case !due:
		return rest
	}
	if hash != p.asked || p.sites.err != nil || untrusted(old) {
		p.sites.configure(ctx, p)
	}
	if ctx.Err() != nil {
		return Interval
	}
	p.asked = hash
	if p.sites.err != nil {
		return p.keep(broken(old, p.sites.config.VCenters, p.sites.err, p.Now()))
	}
	return p.poll(ctx, old)
}

// forget drops what the vCenters said: nobody can ask whether it is still so.
func (p *Poller) forget(ctx context.Context) {
	p.sites.disconnect(ctx)
	p.asked = ""
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
	asking, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	answers := p.sites.look(asking, want, p.Now())
	if ctx.Err() != nil {
		return Interval
	}
	pause := p.keep(merge(old, p.sites.config.VCenters, answers, p.Now()))
	if p.After == nil {
		return pause
	}
	acting, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if p.After(acting, p.Snapshot(), want, p.sites.writers(answers)) {
		return p.soon()
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
	p.next = p.polled.Add(pause)
	p.mutex.Unlock()
	p.Metrics.answered(seen)
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
	pause := p.lengthen(backOff(p.failures))
	p.next = p.Now().Add(pause)
	return pause
}

// soon makes the next poll come after a short pause.
func (p *Poller) soon() time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.next = p.Now().Add(Soon)
	return Soon
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
			pause = backOff(p.failures)
		}
	}
	return p.lengthen(pause)
}

func backOff(failures int) time.Duration {
	return min(firstPause<<min(max(failures-1, 0), 8), Interval)
}

func (p *Poller) lengthen(pause time.Duration) time.Duration {
	if p.Jitter != nil {
		return p.Jitter(pause)
	}
	return pause + time.Duration(jitter*rand.Float64()*float64(pause)) //nolint:gosec // Nobody gains by guessing it.
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
