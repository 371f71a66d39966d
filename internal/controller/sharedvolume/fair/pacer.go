package fair

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// FirstPause is the time until the first retry of a failing object. The operator must retry, because the cause may be an object that no watch
	// covers. The pause doubles while the failure stays the same.
	FirstPause = 30 * time.Second
	// LongestPause is the longest time between two retries.
	LongestPause = 10 * time.Minute
)

// Limits for the retries of failing objects, in total and for each namespace. A retry costs a few requests.
const (
	triesPerSecond, mostTries                   = 20, 100
	namespaceTriesPerSecond, mostNamespaceTries = 5, 50
)

// Pacer spaces out retries of failing objects. So a user with thousands of failing objects can neither flood the API server nor delay other
// namespaces.
type Pacer struct {
	// refusals are reasons of failures. Only another request to the API server shows whether such a failure is over.
	refusals []string

	mutex   sync.Mutex
	all     *rate.Limiter
	failing map[string]*tenant
}

// tenant has the failing objects of one namespace.
type tenant struct {
	tries    *rate.Limiter
	attempts map[string]*attempt
}

// attempt describes the last failed reconcile of an object: why it failed, and when the retry is due.
type attempt struct {
	reason string
	pause  time.Duration
	due    time.Time
}

// NewPacer returns a Pacer with these refusals.
func NewPacer(refusals ...string) *Pacer {
	return &Pacer{refusals: refusals, all: rate.NewLimiter(triesPerSecond, mostTries), failing: map[string]*tenant{}}
}

// May reports whether the controller may send requests for an object now. The retry of a failing object must be due, or the object must have a new
// reason. In addition, the limits must allow one more retry. Argument "moves" is true if the object waited for something that has happened since.
// Such an object uses up no retry, unless its last failure was a refusal.
func (p *Pacer) May(key client.ObjectKey, reason string, moves bool, now time.Time) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	namespace := p.failing[key.Namespace]
	if namespace == nil || namespace.attempts[key.Name] == nil {
		return true
	}
	last := namespace.attempts[key.Name]
	switch {
	case reason == last.reason && now.Before(last.due):
		return false
	case moves && !slices.Contains(p.refusals, last.reason):
		return true
	}
	// If the namespace has no retries left, its retry must not count for the limit of all namespaces.
	return namespace.tries.AllowN(now, 1) && p.all.AllowN(now, 1)
}

// Failed records a failure and returns the time until the retry. After a failure with the same reason, the pause doubles. If the retry was not due
// yet, the time of the retry stays the same.
func (p *Pacer) Failed(key client.ObjectKey, reason string, now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	namespace := p.failing[key.Namespace]
	if namespace == nil {
		namespace = &tenant{tries: rate.NewLimiter(namespaceTriesPerSecond, mostNamespaceTries), attempts: map[string]*attempt{}}
		p.failing[key.Namespace] = namespace
	}
	last := namespace.attempts[key.Name]
	switch {
	case last == nil || last.reason != reason:
		last = &attempt{reason: reason, pause: FirstPause}
		namespace.attempts[key.Name] = last
	case now.Before(last.due):
		return last.due.Sub(now)
	default:
		last.pause = min(2*last.pause, LongestPause)
	}
	last.due = now.Add(last.pause)
	return last.pause
}

// Postponed returns the time until the retry of an object for which May returned false.
func (p *Pacer) Postponed(key client.ObjectKey, now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	namespace := p.failing[key.Namespace]
	if namespace == nil || namespace.attempts[key.Name] == nil {
		return FirstPause
	}
	last := namespace.attempts[key.Name]
	if !now.Before(last.due) {
		last.due = now.Add(last.pause)
	}
	return last.due.Sub(now)
}

// Settled removes an object that no longer fails or no longer exists.
func (p *Pacer) Settled(key client.ObjectKey) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	namespace := p.failing[key.Namespace]
	if namespace == nil {
		return
	}
	delete(namespace.attempts, key.Name)
	if len(namespace.attempts) == 0 {
		delete(p.failing, key.Namespace)
	}
}
