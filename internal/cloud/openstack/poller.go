package openstack

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
)

// Questions say what a driver needs to know.
type Questions struct {
	Zones, ShareTypes bool
}

// Source reads what the cloud is asked with: the credentials, and the certificates in PEM that are trusted besides those of the system.
type Source func(ctx context.Context) (credentials Credentials, roots []byte, err error)

// Poller asks the cloud on a schedule, and keeps the last answer. Nothing waits for it. After a restart nothing is known.
type Poller struct {
	// Schedule follows the hash of the Source's inputs that the trip has seen.
	poll.Schedule
	Ask    Questions
	Source Source
	// Wake is called when the facts say something else. It must not block.
	Wake func()
	Now  func() time.Time
	Log  logr.Logger
	// Metrics may be nil.
	Metrics *poll.Metrics
	// Connect makes a client; New by default. Jitter is random by default.
	Connect func(Credentials, Options) (Cloud, error)
	Jitter  func(time.Duration) time.Duration

	mutex sync.Mutex
	facts Facts

	// What follows is of the goroutine that polls. Budget and refusals outlive the client, which asks with credentials.
	cloud       Cloud
	credentials Credentials
	budget      *poll.Budget
	refusals    poll.Refusals[Credentials, error]
}

// Facts are what is known now.
func (p *Poller) Facts() Facts {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.facts
}

// Start polls until ctx ends. The manager calls it.
func (p *Poller) Start(ctx context.Context) error {
	p.Run(ctx, p.Tick)
	p.disconnect()
	return nil
}

// Tick asks the cloud if that is due, and returns how long to wait. Without credentials it waits for Follow.
func (p *Poller) Tick(ctx context.Context) time.Duration {
	hash, other, wait := p.Due(p.Now())
	if other {
		p.disconnect()
	}
	switch {
	case hash == "":
		return poll.Interval
	case wait > 0:
		return wait
	}
	answer := p.look(ctx)
	if ctx.Err() != nil {
		return poll.Interval
	}
	return p.keep(answer)
}

// look connects where that is due, and asks. Keystone may lock a user who logs in with a wrong password too often (keystone, security_compliance
// lockout_failure_attempts), so that refused credentials are not tried again too soon.
func (p *Poller) look(ctx context.Context) (answer Answer) {
	ctx, cancel := context.WithTimeout(ctx, poll.Timeout)
	defer cancel()
	if p.cloud == nil {
		if answer.Err = p.connect(ctx); answer.Err != nil {
			return answer
		}
	}
	p.budget.Begin()
	answer = p.ask(ctx)
	if isRefusal(answer.Err) {
		p.refusals.Add(p.credentials, answer.Err, p.Now())
		p.disconnect()
	}
	return answer
}

// ask asks everything that the driver needs. The first error ends it: half an answer is none.
func (p *Poller) ask(ctx context.Context) (answer Answer) {
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

// connect makes a client of what the Source has now.
func (p *Poller) connect(ctx context.Context) error {
	credentials, roots, err := p.Source(ctx)
	var own *Error
	switch {
	case errors.As(err, &own):
		return own
	case err != nil:
		return &Error{What: "read the credentials", Reason: InvalidCredentials, Why: err.Error(), err: err}
	}
	if why, refused := p.refusals.Of(credentials, p.Now()); refused {
		return why
	}
	if p.budget == nil {
		p.budget = &poll.Budget{Limit: DefaultBudget, MaxRound: maxRound, Now: p.Now}
	}
	connect := p.Connect
	if connect == nil {
		connect = func(credentials Credentials, options Options) (Cloud, error) { return New(credentials, options) }
	}
	p.credentials = credentials
	p.cloud, err = connect(credentials, Options{Roots: roots, Budget: p.budget, Now: p.Now, Count: p.Metrics.Count})
	if err != nil {
		p.cloud = nil
	}
	return err
}

func (p *Poller) disconnect() {
	if closer, ok := p.cloud.(interface{ Close() }); ok {
		closer.Close()
	}
	p.cloud = nil
}

// keep merges an answer, says when to ask again, and wakes whoever acts on the facts if they say something else.
func (p *Poller) keep(answer Answer) time.Duration {
	p.mutex.Lock()
	now, old := p.Now(), p.facts
	p.facts = Merge(old, answer, now)
	pause := p.pause()
	p.AskAt(now.Add(pause))
	facts := p.facts
	p.mutex.Unlock()
	p.Metrics.Answered(facts.Answered)
	p.log(old, facts)
	if !facts.Same(old) {
		p.Wake()
	}
	return pause
}

// pause is how long to wait after the last look: the schedule, or less after an error, but never less than the cloud asks for.
func (p *Poller) pause() time.Duration {
	pause := poll.Pause(p.facts.Failures)
	// A type that one answer lacks is soon asked for again, and so is one that the first answer may lack. Zones have time: pods are restarted.
	if p.facts.Err == nil && p.facts.HasManila && (len(p.facts.lacking) > 0 || p.facts.withoutManila || p.facts.answers < enough) {
		pause = time.Minute
	}
	pause = poll.Lengthen(pause, p.Jitter)
	var failure *Error
	if errors.As(p.facts.Err, &failure) {
		pause = max(pause, failure.RetryAfter)
	}
	if isRefusal(p.facts.Err) {
		pause = max(pause, poll.Interval)
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
