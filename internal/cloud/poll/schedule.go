// Package poll has what pollers of clouds share: a schedule, a limit for requests and for the size of responses, and metrics.
package poll

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// Interval is the time between polls while the cloud answers.
	Interval = 5 * time.Minute
	// Timeout limits a poll, with all its requests.
	Timeout = 2 * time.Minute
	// RequestTimeout limits a request.
	RequestTimeout = 30 * time.Second
	// firstPause is the pause after the first error. After each further error, the pause is twice as long, up to Interval.
	firstPause = 30 * time.Second
	// jitter is the largest random extension of a pause, as a fraction of the pause.
	jitter = 0.1
)

// Pause returns the time until the next poll, after this number of consecutive failures.
func Pause(failures int) time.Duration {
	if failures == 0 {
		return Interval
	}
	return min(firstPause<<min(failures-1, 8), Interval)
}

// Lengthen adds jitter to a pause, so that clusters don't poll a cloud all at once. Function "by", if set, computes the longer pause. If it is nil,
// the jitter is random.
func Lengthen(pause time.Duration, by func(time.Duration) time.Duration) time.Duration {
	if by != nil {
		return by(pause)
	}
	return pause + time.Duration(jitter*rand.Float64()*float64(pause)) //nolint:gosec // It need not be unpredictable.
}

// Schedule decides when to poll a cloud: at once when the inputs change, else at a set time. The zero value is ready for use.
type Schedule struct {
	mutex sync.Mutex
	// wanted is the hash of the current inputs. asked is the hash of the last poll's inputs.
	wanted, asked string
	// next is the time of the next poll.
	next    time.Time
	changed chan struct{}
}

// SetInputs sets the hash of the inputs of a poll, such as credentials. An empty hash means that there are no inputs. Each reconcile calls SetInputs.
// Only a new hash triggers a poll.
func (s *Schedule) SetInputs(hash string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if hash != s.wanted {
		s.wanted = hash
		s.signal()
	}
}

// Due returns the hash of the inputs, and whether it changed since the last poll. It also returns the time until the next poll, where 0 means now.
func (s *Schedule) Due(now time.Time) (hash string, other bool, wait time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if other = s.wanted != s.asked; !other {
		wait = max(s.next.Sub(now), 0)
	}
	s.asked = s.wanted
	return s.wanted, other, wait
}

// AskAt sets the time of the next poll.
func (s *Schedule) AskAt(at time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.next = at
}

// AskBefore schedules the next poll for time "at", unless the poll is already scheduled for an earlier time.
func (s *Schedule) AskBefore(at time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if at.Before(s.next) {
		s.next = at
		s.signal()
	}
}

// signal wakes Run. The caller holds the mutex.
func (s *Schedule) signal() {
	select {
	case s.wakes() <- struct{}{}:
	default:
	}
}

// wakes creates the channel on first use. The caller holds the mutex.
func (s *Schedule) wakes() chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{}, 1)
	}
	return s.changed
}

// NeedLeaderElection makes the manager start the poller in one replica of the operator only.
func (s *Schedule) NeedLeaderElection() bool { return true }

// Run calls the function tick until ctx ends. Each call follows after the pause that the last call returned. It follows at once if SetInputs changes
// the inputs, or if AskBefore schedules an earlier poll.
func (s *Schedule) Run(ctx context.Context, tick func(context.Context) time.Duration) {
	s.mutex.Lock()
	changed := s.wakes()
	s.mutex.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-changed:
		}
		timer.Reset(tick(ctx))
	}
}
