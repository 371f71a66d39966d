package fair

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// FirstPause is when to look again at what is wrong, whose cause may be an object that is not watched. The pause doubles while nothing
	// gets better.
	FirstPause = 30 * time.Second
	// LongestPause is the longest one.
	LongestPause = 10 * time.Minute
)

// These bound how often objects that fail are tried, all together and those of one namespace. A try costs a few requests.
const (
	triesPerSecond, mostTries                   = 20, 100
	namespaceTriesPerSecond, mostNamespaceTries = 5, 50
)

// Pacer spaces out the tries of objects that fail. The author of thousands of them can't keep the API server busy, nor hold up
// other namespaces.
type Pacer struct {
	// refusals are reasons of failures of which only a request shows that they have gone.
	refusals []string

	mutex   sync.Mutex
	all     *rate.Limiter
	failing map[string]*tenant
}

// tenant is a namespace with objects that fail.
type tenant struct {
	tries    *rate.Limiter
	attempts map[string]*attempt
}

// attempt is the last try of an object.
type attempt struct {
	reason string
	pause  time.Duration
	due    time.Time
}

// NewPacer makes one. Refusals are reasons of failures of which only a request shows that they have gone.
func NewPacer(refusals ...string) *Pacer {
	return &Pacer{refusals: refusals, all: rate.NewLimiter(triesPerSecond, mostTries), failing: map[string]*tenant{}}
}

// May reports whether an object may cost requests now. One that fails may if it is due, or if the reason is another one than last time, and if
// its namespace has tries left. What moves, because what it waited for has come, takes no try.
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
	// A namespace that has used its tries up takes none from the others.
	return namespace.tries.AllowN(now, 1) && p.all.AllowN(now, 1)
}

// Failed notes a failure and returns when to try again. What fails for the same reason as before waits longer; what was looked at
// before it was due does not.
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

// Postponed is when to try an object again that was not allowed to.
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

// Settled forgets an object that does not fail any more, or is not there.
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
