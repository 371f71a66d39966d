package openstack

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// Interval is how often the cloud is asked while it answers.
	Interval = 5 * time.Minute
	// firstPause is the pause after an error, which doubles up to Interval.
	firstPause = 30 * time.Second
	// pollTimeout bounds one look, with all its requests.
	pollTimeout = 2 * time.Minute
	// jitter is how much longer a pause can get, as a part of it, so that not all clusters of a cloud ask at once.
	jitter = 0.1
)

// Questions say what a driver needs to know.
type Questions struct {
	Zones, ShareTypes bool
}

// Source reads what the cloud is asked with: the credentials, and the certificates in PEM that are trusted besides those of the system.
type Source func(ctx context.Context) (credentials Credentials, roots []byte, err error)

// Poller asks the cloud on a schedule, and keeps the last answer. Nothing waits for it. After a restart nothing is known.
type Poller struct {
	Ask    Questions
	Source Source
	// Wake is called when the facts say something else. It must not block.
	Wake func()
	Now  func() time.Time
	Log  logr.Logger
	// Metrics may be nil.
	Metrics *Metrics
	// Connect makes a client; New by default. Jitter is random by default.
	Connect func(Credentials, Options) (Cloud, error)
	Jitter  func(time.Duration) time.Duration

	mutex sync.Mutex
	facts Facts
	// wanted is the hash of the Source's inputs that the trip has seen, asked the one that the client was made with.
	wanted, asked string
	changed       chan struct{}
	// next is when to ask again.
	next   time.Time
	cloud  Cloud
	budget *Budget
}

// Facts are what is known now.
func (p *Poller) Facts() Facts {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.facts
}

// Follow says which inputs the Source has now, by a hash; empty if they are absent. Another hash makes the cloud be asked at once, with the
// new credentials. It is cheap, and called at each trip.
func (p *Poller) Follow(hash string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if hash == p.wanted {
		return
	}
	p.wanted = hash
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

// NeedLeaderElection is what the manager asks: one copy of the operator asks the cloud.
func (p *Poller) NeedLeaderElection() bool { return true }

// Start polls until ctx ends. The manager calls it.
func (p *Poller) Start(ctx context.Context) error {
	p.mutex.Lock()
	changed := p.wakes()
	p.mutex.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			p.disconnect()
			return nil
		case <-timer.C:
		case <-changed:
		}
		timer.Reset(p.Tick(ctx))
	}
}

// Tick asks the cloud if that is due, and returns how long to wait. Without credentials it waits for Follow.
func (p *Poller) Tick(ctx context.Context) time.Duration {
	p.mutex.Lock()
	hash, now := p.wanted, p.Now()
	due := hash != p.asked || !now.Before(p.next)
	rest := p.next.Sub(now)
	p.mutex.Unlock()
	switch {
	case hash == "":
		p.forget()
		return Interval
	case !due:
		return rest
	}
	answer := p.look(ctx, hash)
	if ctx.Err() != nil {
		return Interval
	}
	return p.keep(answer, hash)
}

// look asks everything that the driver needs. The first error ends it: half an answer is none.
func (p *Poller) look(ctx context.Context, hash string) (answer Answer) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if p.cloud == nil || hash != p.asked {
		if answer.Err = p.connect(ctx); answer.Err != nil {
			return answer
		}
	}
	if p.Ask.Zones {
		if answer.ComputeZones, answer.Err = p.cloud.ComputeZones(ctx); answer.Err != nil {
			return answer
		}
		if answer.VolumeZones, answer.Err = p.cloud.VolumeZones(ctx); answer.Err != nil {
			return answer
		}
	}
	if p.Ask.ShareTypes {
		answer.ShareTypes, answer.HasManila, answer.Err = p.cloud.ShareTypes(ctx)
	}
	return answer
}

// connect makes a client of what the Source has now. The budget stays the same.
func (p *Poller) connect(ctx context.Context) error {
	p.disconnect()
	credentials, roots, err := p.Source(ctx)
	var own *Error
	switch {
	case errors.As(err, &own):
		return own
	case err != nil:
		return &Error{What: "read the credentials", Reason: InvalidCredentials, Why: err.Error(), err: err}
	}
	if p.budget == nil {
		p.budget = &Budget{Now: p.Now}
	}
	connect := p.Connect
	if connect == nil {
		connect = func(credentials Credentials, options Options) (Cloud, error) { return New(credentials, options) }
	}
	p.cloud, err = connect(credentials, Options{Roots: roots, Budget: p.budget, Now: p.Now, Count: p.Metrics.request})
	if err != nil {
		p.cloud = nil
	}
	return err
}

// forget drops the client while there are no credentials, so that the same ones are used at once when they are there again.
func (p *Poller) forget() {
	p.disconnect()
	p.mutex.Lock()
	p.asked = ""
	p.mutex.Unlock()
}

func (p *Poller) disconnect() {
	if closer, ok := p.cloud.(interface{ Close() }); ok {
		closer.Close()
	}
	p.cloud = nil
}

// keep merges an answer, says when to ask again, and wakes whoever acts on the facts if they say something else.
func (p *Poller) keep(answer Answer, hash string) time.Duration {
	p.mutex.Lock()
	now, old := p.Now(), p.facts
	p.facts = Merge(old, answer, now)
	p.asked = hash
	pause := p.pause()
	p.next = now.Add(pause)
	facts := p.facts
	p.mutex.Unlock()
	p.Metrics.answered(facts)
	p.log(old, facts)
	if !facts.Same(old) {
		p.Wake()
	}
	return pause
}

// pause is how long to wait after the last look: the schedule, or less after an error, but never less than the cloud asks for.
func (p *Poller) pause() time.Duration {
	pause := Interval
	if failures := p.facts.Failures; failures > 0 {
		pause = min(firstPause<<min(failures-1, 8), Interval)
	}
	// A type that one answer lacks is soon asked for again, and so is one that the first answer may lack.
	if p.facts.Err == nil && (len(p.facts.lacking) > 0 || p.facts.HasManila && p.facts.answers < enough) {
		pause = time.Minute
	}
	if p.Jitter != nil {
		pause = p.Jitter(pause)
	} else {
		pause += time.Duration(jitter * rand.Float64() * float64(pause)) //nolint:gosec // Nobody gains by guessing it.
	}
	var failure *Error
	if errors.As(p.facts.Err, &failure) {
		pause = max(pause, failure.RetryAfter)
	}
	return pause
}

// log says what changed, once.
func (p *Poller) log(old, facts Facts) {
	switch {
	case facts.Err != nil && (old.Err == nil || old.Err.Error() != facts.Err.Error()):
		p.Log.Info("the cloud does not answer: what is known of it stays", "error", facts.Err.Error())
	case facts.Err == nil && old.Err != nil:
		p.Log.Info("the cloud answers again", "failures", old.Failures)
	}
}
