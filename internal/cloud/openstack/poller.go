package openstack

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
)

// Questions select what a driver needs from the cloud.
type Questions struct {
	Zones, ShareTypes bool
}

// Source reads the credentials, and PEM certificates that the client trusts in addition to the system's.
type Source func(ctx context.Context) (credentials Credentials, roots []byte, err error)

// Poller polls the cloud on a schedule, and stores the last answer. Callers never wait for it. After a restart, it has no answer.
type Poller struct {
	// Schedule polls at once if the hash of the Source's inputs changes.
	poll.Schedule
	Ask    Questions
	Source Source
	// Wake is called when the facts change. It must not block.
	Wake func()
	Now  func() time.Time
	Log  logr.Logger
	// Metrics may be nil.
	Metrics *poll.Metrics
	// Connect creates a client. If it is nil, the Poller calls New. Jitter lengthens a pause. If it is nil, the Poller lengthens each pause by a random
	// time.
	Connect func(Credentials, Options) (Cloud, error)
	Jitter  func(time.Duration) time.Duration

	mutex sync.Mutex
	facts Facts

	// Only the polling goroutine uses these fields. Budget and refusals outlive the client. A change of the credentials replaces the client.
	cloud       Cloud
	credentials Credentials
	budget      *poll.Budget
	refusals    poll.Refusals[Credentials, error]
}

// Facts returns the current facts.
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

// Tick polls if a poll is due, and returns how long to wait. Without credentials, it waits for SetInputs.
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
	answer := p.observe(ctx)
	if ctx.Err() != nil {
		return poll.Interval
	}
	return p.store(answer)
}

// observe connects if necessary, and queries the cloud. It does not retry rejected credentials too soon, because Keystone can lock a user after
// several failed logins (keystone, security_compliance lockout_failure_attempts).
func (p *Poller) observe(ctx context.Context) (answer Answer) {
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

// ask queries everything that the driver needs. It stops at the first error, because the poller does not use partial answers.
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

// connect creates a client from the Source.
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

// store merges an answer, schedules the next poll, and calls Wake if the facts changed.
func (p *Poller) store(answer Answer) time.Duration {
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

// pause returns the time until the next poll. After the first errors, and while share types need a confirmation, the pause is shorter than Interval.
// But it is at least as long as the cloud's Retry-After, and after a rejected login at least Interval.
func (p *Poller) pause() time.Duration {
	pause := poll.Pause(p.facts.Failures)
	// Poll again soon to confirm that a type is missing. The confirmation of changed zones can wait, because a change of zones restarts pods.
	if p.facts.Err == nil && p.facts.HasManila && (len(p.facts.lacking) > 0 || p.facts.withoutManila || p.facts.answers < confirmations) {
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

// log logs each change once.
func (p *Poller) log(old, facts Facts) {
	switch {
	case facts.Err != nil && (old.Err == nil || old.Err.Error() != facts.Err.Error()):
		p.Log.Info("the cloud does not answer: its last answer stays in effect", "error", facts.Err.Error())
	case facts.Err == nil && old.Err != nil:
		p.Log.Info("the cloud answers again", "failures", old.Failures)
	}
}
