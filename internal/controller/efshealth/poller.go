package efshealth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/cloud/poll"
)

const (
	// shortInterval is the interval of polls while a change in AWS can solve an open problem. It is also the least time between two polls after a change
	// in the cluster.
	shortInterval = 10 * time.Minute
	// longInterval is the interval of all other polls. The operator must poll, because a change in AWS causes no event.
	longInterval = time.Hour
	// firstPause is the pause after a failure. The pause doubles up to shortInterval.
	firstPause  = time.Minute
	pollTimeout = 5 * time.Minute
)

// poller polls AWS in a goroutine of its own, and keeps the last answer in memory.
type poller struct {
	// Schedule wakes the goroutine. After each wake-up, the facts decide whether a poll is due. So not every change in the cluster causes a poll.
	poll.Schedule
	now func() time.Time
	// done is a function that the poller calls after each poll. The function must not block.
	done func(answered bool)
	// answers limits the size of the responses to a poll, or to a batch of tag updates. Mutex "asking" ensures that a poll and a batch do not run at the
	// same time.
	answers poll.Budget
	asking  sync.Mutex

	mutex   sync.Mutex
	subject subject
	// fingerprint is the fingerprint of subject.used.
	fingerprint string
	facts       facts
}

// subject is the client for polls, and what the polls ask about. The poller does not poll without a client.
type subject struct {
	cloud Cloud
	used  uses
	// ownerTag is the tag key of access points that this cluster created. It is empty without an infrastructure ID.
	ownerTag string
}

// facts are what the poller has learned from the answers of AWS. A value of type facts is immutable.
type facts struct {
	// seen is the result of the last complete poll. denied has the actions that the credentials lacked in that poll.
	seen   *snapshot
	denied denials
	// answered is the time at which AWS last answered, even in part. asked is the fingerprint of the last complete poll.
	answered time.Time
	asked    string
	// open is true while a change in AWS can solve an open problem.
	open bool
	// tried is the time of the last failed poll. problem is the error of that poll. failures is the number of failed polls in a row. silent is true if
	// the last failed poll got no answer at all.
	tried    time.Time
	problem  string
	failures int
	silent   bool
}

// Start polls until ctx ends.
func (p *poller) Start(ctx context.Context) error {
	p.Run(ctx, p.Tick)
	return nil
}

// configure sets the client and the subject of polls. It returns the facts, and whether a poll is due or running. Without a client, it drops all
// facts except the time of the last answer, because that time limits when the next poll can start. A new client resets the failures.
func (p *poller) configure(now subject) (known facts, isDue bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch {
	case now.cloud == nil:
		p.facts = facts{answered: p.facts.answered}
		p.SetInputs("")
	case now.cloud != p.subject.cloud:
		p.facts.failures, p.facts.asked = 0, ""
	}
	p.subject, p.fingerprint = now, now.used.fingerprint()
	return p.facts, !p.facts.next(p.fingerprint).After(p.now())
}

// plan schedules the next poll. Its time depends on the last answers of AWS, and on the file systems that the cluster uses.
func (p *poller) plan(open bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.facts.open = open
	// The inputs include the client. With a new client, the poller must wake up even if its next poll is due at the same time as before.
	p.SetInputs(fmt.Sprintf("%p %s", p.subject.cloud, p.facts.next(p.fingerprint)))
}

// Tick polls AWS if a poll is due, and returns how long to wait. Without a client, it polls nothing until method plan wakes the goroutine.
func (p *poller) Tick(ctx context.Context) time.Duration {
	p.mutex.Lock()
	about, wait := p.subject, p.facts.next(p.fingerprint).Sub(p.now())
	p.mutex.Unlock()
	switch {
	case about.cloud == nil:
		return poll.Interval
	case wait > 0:
		return wait
	}
	return p.poll(ctx, about)
}

// poll asks AWS, and returns how long to wait. If AWS does not answer, the previous facts stay.
func (p *poller) poll(ctx context.Context, about subject) time.Duration {
	p.asking.Lock()
	defer p.asking.Unlock()
	asking, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	p.answers.Begin()
	denied := denials{}
	seen, err := about.ask(asking, p.now(), denied)
	if ctx.Err() != nil {
		return poll.Interval
	}
	p.mutex.Lock()
	now := p.now()
	switch {
	case p.subject.cloud == about.cloud:
		p.facts = p.facts.merge(seen, denied, err, now)
	case err == nil && (p.facts.seen != nil || p.subject.cloud == nil):
		// The client changed during the poll, so the poller drops the answer. It keeps only the time of the answer, which limits when the next poll can
		// start. If a new client has no facts yet, the poller does not keep the time either.
		p.facts.answered = seen.at
	}
	// The pause is at least a second, even if the next poll is overdue.
	pause := max(p.facts.next(p.fingerprint).Sub(now), time.Second)
	p.mutex.Unlock()
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "could not check AWS", "again", pause.String())
	}
	p.done(err == nil)
	return pause
}

// merge returns the facts after a poll. After an error, the previous answer stays. If one poll could not read the network, the previous network
// stays, because a single failure can be chance, and the next poll comes soon. After two such polls in a row, the network is unknown.
func (f facts) merge(seen *snapshot, denied denials, err error, now time.Time) facts {
	if err == nil {
		if seen.networkFailed && f.seen != nil && !f.seen.networkFailed {
			seen.network = f.seen.network
		}
		return facts{seen: seen, denied: denied, answered: seen.at, asked: seen.fingerprint, open: f.open}
	}
	if f.silent = seen.systems == nil; !f.silent {
		f.answered = now
	}
	f.failures++
	f.tried, f.problem = now, reasonOf(err)
	return f
}

// next returns the time of the next poll, for uses with this fingerprint.
func (f facts) next(fingerprint string) time.Time {
	pause := longInterval
	if f.open || f.asked != fingerprint || f.failures > 0 {
		pause = shortInterval
	}
	next := f.answered.Add(pause)
	if retry := f.tried.Add(min(firstPause<<min(f.failures, 8)/2, shortInterval)); f.failures > 0 && retry.After(next) {
		return retry
	}
	return next
}

// unreachable reports whether at least two polls in a row failed. A single failure can be chance.
func (f facts) unreachable() bool { return f.failures > 1 }

// reasonOf returns the reason for a failed poll, with advice if possible. It omits variable parts such as ports, because they would change the
// condition at each poll.
func reasonOf(err error) string {
	var network *net.OpError
	switch {
	case aws.IsInvalidCredentials(err):
		return err.Error() + ": the credentials are invalid or expired; renew the Secret"
	case errors.As(err, &network):
		return "no connection: " + network.Op + ": " + network.Err.Error()
	default:
		return err.Error()
	}
}
