package status

import (
	"time"
)

// StuckAfter is how long a roll-out may go without progress before it is called stuck.
const StuckAfter = 15 * time.Minute

// Rollouts remembers how far each roll-out has come. It is not safe for use by several goroutines.
type Rollouts struct {
	Now func() time.Time

	seen map[string]rollout
}

// rollout is the number of a roll-out, how much there was to do when it was looked at last, and the least that was ever left. Since is when that
// became less by work, and not because nodes left.
type rollout struct {
	generation, total, least int64
	since                    time.Time
}

// Stuck reports whether a roll-out has made no progress for StuckAfter, and when to look again (0: no need). Done grows as the roll-out goes on.
// What is left of total has to become less than ever: pods that start and fail in turns are no progress, and neither is a node that joins and
// gets its pod. A node that leaves takes what is left on it along; that may be nothing, and is no progress either. The least never grows, so that
// nodes which come and go hide a stuck roll-out for a limited time.
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
