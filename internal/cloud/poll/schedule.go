// Package poll is what clouds are asked with: a schedule, a budget of requests, answers of bounded size, and metrics. What is asked is not here.
package poll

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// Interval is how often a cloud is asked while it answers.
	Interval = 5 * time.Minute
	// Timeout bounds one poll, with all its requests.
	Timeout = 2 * time.Minute
	// RequestTimeout bounds one request.
	RequestTimeout = 30 * time.Second
	// firstPause is the pause after an error, which doubles up to Interval.
	firstPause = 30 * time.Second
	// jitter is how much longer a pause can get, as a part of it.
	jitter = 0.1
)

// Pause is how long to wait after a poll that was the last of so many failures in a row.
func Pause(failures int) time.Duration {
	if failures == 0 {
		return Interval
	}
	return min(firstPause<<min(failures-1, 8), Interval)
}

// Lengthen makes a pause longer, so that not all clusters of a cloud ask at once: by by, or by chance if that is nil.
func Lengthen(pause time.Duration, by func(time.Duration) time.Duration) time.Duration {
	if by != nil {
		return by(pause)
	}
	return pause + time.Duration(jitter*rand.Float64()*float64(pause)) //nolint:gosec // Nobody gains by guessing it.
}

// Schedule says when to ask a cloud: at once with other inputs, and else at a time. The zero value is ready for use.
type Schedule struct {
	mutex sync.Mutex
	// wanted is the hash of the inputs that there are now, asked the one of the last poll.
	wanted, asked string
	// next is when to ask again.
	next    time.Time
	changed chan struct{}
}

// Follow says which inputs there are to ask with, by a hash; empty if they are absent. Another hash makes the cloud be asked at once. It is cheap,
// and called at each trip.
func (s *Schedule) Follow(hash string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if hash != s.wanted {
		s.wanted = hash
		s.signal()
	}
}

// Due returns the hash of the inputs to ask with, whether it is another one than the last time, and how long to wait; 0 if it is time to ask.
func (s *Schedule) Due(now time.Time) (hash string, other bool, wait time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if other = s.wanted != s.asked; !other {
		wait = max(s.next.Sub(now), 0)
	}
	s.asked = s.wanted
	return s.wanted, other, wait
}

// AskAt says when to ask again.
func (s *Schedule) AskAt(at time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.next = at
}

// Hasten is AskAt if that is sooner.
func (s *Schedule) Hasten(at time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if at.Before(s.next) {
		s.next = at
		s.signal()
	}
}

// signal wakes Run. The mutex is held.
func (s *Schedule) signal() {
	select {
	case s.wakes() <- struct{}{}:
	default:
	}
}

// wakes is made on first use. The mutex is held.
func (s *Schedule) wakes() chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{}, 1)
	}
	return s.changed
}

// NeedLeaderElection is what the manager asks: one copy of the operator asks the cloud.
func (s *Schedule) NeedLeaderElection() bool { return true }

// Run calls tick until ctx ends: after as long as the last tick has returned, and whenever there are other inputs or the next poll is sooner.
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
