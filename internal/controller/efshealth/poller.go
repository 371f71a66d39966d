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
	// atMost is how often AWS is asked at most: while something is wrong that is mended there, and when something has changed.
	atMost = 10 * time.Minute
	// seldom is how often AWS is asked while nothing has changed in the cluster: a problem in AWS causes no event.
	seldom = time.Hour
	// firstPause is the pause after a failure, which doubles up to atMost.
	firstPause  = time.Minute
	pollTimeout = 5 * time.Minute
)

// poller asks AWS by need, and keeps the last answer. Nothing waits for it. After a restart nothing is known.
type poller struct {
	// Schedule wakes the goroutine that asks. How long it waits is in the facts: AWS is not asked at once for a change in the cluster.
	poll.Schedule
	now func() time.Time
	// done is called after each poll. It must not block.
	done func(answered bool)
	// answers counts what AWS answers in a poll, or to a batch of tags. One of them at a time has asking.
	answers poll.Budget
	asking  sync.Mutex

	mutex sync.Mutex
	wants wants
	// fingerprint is that of the uses.
	fingerprint string
	facts       facts
}

// wants is what AWS is asked with and about; without a cloud, it is not asked.
type wants struct {
	cloud Cloud
	used  uses
	// ownerTag is on the access points that this cluster has made; empty if nobody knows how it is called.
	ownerTag string
}

// facts are what is known of AWS. They are a value.
type facts struct {
	// seen is what the last poll found that AWS has answered in full, denied what the credentials may not do.
	seen   *snapshot
	denied denials
	// answered is when AWS answered last, perhaps in part only, and asked the fingerprint of what it was asked about.
	answered time.Time
	asked    string
	// open is true while something is wrong that is mended in AWS.
	open bool
	// tried is when AWS was asked in vain, problem why, failures how often in a row. It is silent if it has answered nothing.
	tried    time.Time
	problem  string
	failures int
	silent   bool
}

// Start polls until ctx ends. The manager calls it.
func (p *poller) Start(ctx context.Context) error {
	p.Run(ctx, p.Tick)
	return nil
}

// follow says what AWS is to be asked with and about, and returns what is known, and whether a poll is due or under way. Without a cloud, what it
// said is forgotten; when it was asked is kept, so that it is not asked too often. What failed with other credentials may work with new ones.
func (p *poller) follow(now wants) (known facts, isDue bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch {
	case now.cloud == nil:
		p.facts = facts{answered: p.facts.answered}
		p.Follow("")
	case now.cloud != p.wants.cloud:
		p.facts.failures, p.facts.asked = 0, ""
	}
	p.wants, p.fingerprint = now, now.used.fingerprint()
	return p.facts, !p.facts.next(p.fingerprint).After(p.now())
}

// plan makes the next poll as soon as what is known and what is used ask for it.
func (p *poller) plan(open bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.facts.open = open
	// The client belongs to it: with others, a poll may be due at the same time that was waited for.
	p.Follow(fmt.Sprintf("%p %s", p.wants.cloud, p.facts.next(p.fingerprint)))
}

// Tick asks AWS if that is due, and returns how long to wait. Without a cloud it waits for plan.
func (p *poller) Tick(ctx context.Context) time.Duration {
	p.mutex.Lock()
	about, wait := p.wants, p.facts.next(p.fingerprint).Sub(p.now())
	p.mutex.Unlock()
	switch {
	case about.cloud == nil:
		return poll.Interval
	case wait > 0:
		return wait
	}
	return p.poll(ctx, about)
}

// poll asks AWS, and returns how long to wait. What was known stays if AWS does not answer.
func (p *poller) poll(ctx context.Context, about wants) time.Duration {
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
	case p.wants.cloud == about.cloud:
		p.facts = p.facts.merge(seen, denied, err, now)
	case err == nil && (p.facts.seen != nil || p.wants.cloud == nil):
		// The credentials are others by now: the answer only counts against how often AWS is asked, unless nothing is known yet.
		p.facts.answered = seen.at
	}
	// A wait that is over by now is no reason to ask without a pause.
	pause := max(p.facts.next(p.fingerprint).Sub(now), time.Second)
	p.mutex.Unlock()
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "could not check AWS", "again", pause.String())
	}
	p.done(err == nil)
	return pause
}

// merge makes the facts after a poll. An error keeps what was known. It is pure.
func (f facts) merge(seen *snapshot, denied denials, err error, now time.Time) facts {
	if err == nil {
		return facts{seen: seen, denied: denied, answered: seen.at, asked: seen.fingerprint, open: f.open}
	}
	if f.silent = seen.systems == nil; !f.silent {
		f.answered = now
	}
	f.failures++
	f.tried, f.problem = now, reasonOf(err)
	return f
}

// next is when to ask AWS about what has a fingerprint.
func (f facts) next(fingerprint string) time.Time {
	pause := seldom
	if f.open || f.asked != fingerprint || f.failures > 0 {
		pause = atMost
	}
	next := f.answered.Add(pause)
	if retry := f.tried.Add(min(firstPause<<min(f.failures, 8)/2, atMost)); f.failures > 0 && retry.After(next) {
		return retry
	}
	return next
}

// unreachable is true if AWS did not answer twice in a row: once can be chance.
func (f facts) unreachable() bool { return f.failures > 1 }

// reasonOf says why AWS can't be asked, with what to do where that is known. Ports and the like, which are others each time, are left
// out.
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
