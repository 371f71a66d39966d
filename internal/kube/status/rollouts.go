package status

import (
	"time"
)

// StuckAfter is the time without progress after which a roll-out counts as stuck.
const StuckAfter = 15 * time.Minute

// sizesEvery is the interval at which Rollouts records the size of a roll-out. Rollouts also checks a growing roll-out at this interval.
const sizesEvery = time.Minute

// Work is the state of a roll-out.
type Work struct {
	// Generation is the generation of the object that is rolled out.
	Generation int64
	// Total is the amount of all work, for instance the number of pods. Done is the part of this work that is finished.
	Total, Done int64
	// Failing means that at least one pod is not ready, although it was created StuckAfter ago or earlier.
	Failing bool
}

// Rollouts remembers the progress of each roll-out. It is not safe for concurrent use.
type Rollouts struct {
	Now func() time.Time

	seen map[string]rollout
}

// rollout is what Rollouts remembers of a roll-out.
type rollout struct {
	generation int64
	// total is Work.Total at the last check. least is the minimum of the remaining work.
	total, least int64
	// since is the last time at which the remaining work fell to a new minimum. The departure of a node from the cluster does not change this time.
	since time.Time
	// failed is the last time at which a pod was failing. It is zero if no pod has failed.
	failed time.Time
	// sizes are the sizes of the roll-out during the last StuckAfter, the oldest first.
	sizes []size
}

// size is the size of a roll-out at one time.
type size struct {
	at          time.Time
	total, done int64
}

// Stuck reports whether a roll-out has made no progress for StuckAfter. It also returns when to requeue (0: never). Progress means that the remaining
// work (Total minus Done) falls to a new minimum. So pods that become ready and fail again make no progress. Nodes that join or leave make no
// progress, either. The minimum never grows. So nodes that join and leave can hide a stuck roll-out only for a limited time.
//
// A cluster may get nodes faster than their pods become ready. Then the remaining work grows. Such a roll-out is not stuck while pods become ready
// and no pod fails.
func (r *Rollouts) Stuck(name string, underWay bool, work Work) (bool, time.Duration) {
	if !underWay {
		delete(r.seen, name)
		return false, 0
	}
	if r.seen == nil {
		r.seen = map[string]rollout{}
	}
	now, left := r.Now(), work.Total-work.Done
	next, known := r.seen[name]
	begins := !known || next.generation != work.Generation
	if begins {
		next = rollout{generation: work.Generation}
	}
	if begins || left < next.least-max(0, next.total-work.Total) {
		next.since, next.least = now, left
	}
	next.total, next.least = work.Total, min(next.least, left)
	if work.Failing {
		next.failed = now
	}
	next.sizes = recent(next.sizes, size{now, work.Total, work.Done})
	r.seen[name] = next
	switch remaining := StuckAfter - now.Sub(next.since); {
	case remaining > 0:
		return false, remaining
	case next.grows(now, work):
		return false, sizesEvery
	default:
		return true, 0
	}
}

// grows reports whether the total has grown within StuckAfter, while pods became ready and no pod failed.
func (r rollout) grows(now time.Time, work Work) bool {
	failing := !r.failed.IsZero() && now.Sub(r.failed) < StuckAfter
	return !failing && work.Total > r.sizes[0].total && work.Done > r.sizes[0].done
}

// recent adds a size, and drops old sizes.
func recent(sizes []size, one size) []size {
	if len(sizes) == 0 || one.at.Sub(sizes[len(sizes)-1].at) >= sizesEvery {
		sizes = append(sizes, one)
	}
	for len(sizes) > 1 && one.at.Sub(sizes[1].at) >= StuckAfter {
		sizes = sizes[1:]
	}
	return sizes
}
