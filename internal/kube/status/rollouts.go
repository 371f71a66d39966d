package status

import (
	"time"
)

// StuckAfter is how long a roll-out may make no progress before it counts as stuck.
const StuckAfter = 15 * time.Minute

// Rollouts remembers the progress of each roll-out. It is not safe for concurrent use.
type Rollouts struct {
	Now func() time.Time

	seen map[string]rollout
}

// rollout is the generation of a roll-out, its total work at the last check, and the least work that ever remained. Since is when work reduced the
// remainder; nodes that leave don't count.
type rollout struct {
	generation, total, least int64
	since                    time.Time
}

// Stuck reports whether a roll-out has made no progress for StuckAfter, and when to requeue (0: never). Progress means that the remaining work (total
// - done) falls to a new minimum. So pods that start and fail in turns are no progress, and neither are nodes that join or leave. The minimum never
// grows, so that nodes which come and go hide a stuck roll-out only for a limited time.
func (r *Rollouts) Stuck(name string, underWay bool, generation, total, done int64) (bool, time.Duration) {
	if !underWay {
		delete(r.seen, name)
		return false, 0
	}
	if r.seen == nil {
		r.seen = map[string]rollout{}
	}
	before, known := r.seen[name]
	left := total - done
	if !known || before.generation != generation || left < before.least-max(0, before.total-total) {
		r.seen[name] = rollout{generation: generation, total: total, least: left, since: r.Now()}
		return false, StuckAfter
	}
	r.seen[name] = rollout{generation: generation, total: total, least: min(before.least, left), since: before.since}
	remaining := StuckAfter - r.Now().Sub(before.since)
	return remaining <= 0, max(0, remaining)
}
