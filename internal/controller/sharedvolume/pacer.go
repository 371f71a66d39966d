package sharedvolume

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// firstPause is when to look again at what is wrong, whose cause may be an object that is not watched. The pause doubles up to
	// longestPause while nothing gets better.
	firstPause   = 30 * time.Second
	longestPause = 10 * time.Minute
)

// These bound how often SharedVolumes that fail are tried, all together and those of one namespace. A try costs a few requests.
const (
	triesPerSecond, mostTries                   = 20, 100
	namespaceTriesPerSecond, mostNamespaceTries = 5, 50
)

// pacer spaces out the tries of SharedVolumes that fail. Whoever makes thousands of them can't keep the API server busy, nor hold up
// those of other namespaces.
type pacer struct {
	mutex   sync.Mutex
	all     *rate.Limiter
	failing map[string]*tenant
}

// tenant is a namespace with SharedVolumes that fail.
type tenant struct {
	tries    *rate.Limiter
	attempts map[string]*attempt
}

// attempt is the last try of a SharedVolume.
type attempt struct {
	reason string
	pause  time.Duration
	due    time.Time
}

func newPacer() *pacer {
	return &pacer{all: rate.NewLimiter(triesPerSecond, mostTries), failing: map[string]*tenant{}}
}

// may tells whether a SharedVolume may cost requests for a plan now. One that fails may if it is due, or if the plan is another one than
// last time, and if its namespace has tries left. What gets on because of what was waited for takes no try.
func (p *pacer) may(key client.ObjectKey, step plan, now time.Time) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	namespace := p.failing[key.Namespace]
	if namespace == nil || namespace.attempts[key.Name] == nil {
		return true
	}
	last := namespace.attempts[key.Name]
	switch {
	case step.reason == last.reason && now.Before(last.due):
		return false
	case (step.do != nil || step.look == lookClaim) && !wasRefused(last.reason):
		return true
	}
	// A namespace that has used its tries up takes none from the others.
	return namespace.tries.AllowN(now, 1) && p.all.AllowN(now, 1)
}

// wasRefused tells whether only a request shows that a failure has gone.
func wasRefused(reason string) bool {
	return slices.Contains([]string{"NameTaken", "QuotaExceeded", "Forbidden", "Refused"}, reason)
}

// failed notes a failure and returns when to try again. What fails for the same reason as before waits longer; what was looked at
// before it was due does not.
func (p *pacer) failed(key client.ObjectKey, reason string, now time.Time) time.Duration {
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
		last = &attempt{reason: reason, pause: firstPause}
		namespace.attempts[key.Name] = last
	case now.Before(last.due):
		return last.due.Sub(now)
	default:
		last.pause = min(2*last.pause, longestPause)
	}
	last.due = now.Add(last.pause)
	return last.pause
}

// postponed is when to try a SharedVolume again that was not allowed to.
func (p *pacer) postponed(key client.ObjectKey, now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	namespace := p.failing[key.Namespace]
	if namespace == nil || namespace.attempts[key.Name] == nil {
		return firstPause
	}
	last := namespace.attempts[key.Name]
	if !now.Before(last.due) {
		last.due = now.Add(last.pause)
	}
	return last.due.Sub(now)
}

// settled forgets a SharedVolume that does not fail any more, or is not there.
func (p *pacer) settled(key client.ObjectKey) {
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
