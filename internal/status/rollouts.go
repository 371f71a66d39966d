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

type rollout struct {
	generation, total, most int64
	since                   time.Time
}

// Stuck reports whether a roll-out has made no progress for StuckAfter, and when to look again (0: no need). Done grows as
// the roll-out goes on; when it falls, because pods start and fail in turns, that is no progress. When nodes leave or join, so that total changes,
// done counts from where it is then.
func (r *Rollouts) Stuck(name string, underWay bool, generation, total, done int64) (bool, time.Duration) {
	if !underWay {
		delete(r.seen, name)
		return false, 0
	}
	if r.seen == nil {
		r.seen = map[string]rollout{}
	}
	before, known := r.seen[name]
	if !known || before.generation != generation || done > before.most {
		r.seen[name] = rollout{generation: generation, total: total, most: done, since: r.Now()}
		return false, StuckAfter
	}
	if before.total != total {
		r.seen[name] = rollout{generation: generation, total: total, most: done, since: before.since}
	}
	remaining := StuckAfter - r.Now().Sub(before.since)
	return remaining <= 0, max(0, remaining)
}
