package status

import (
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
)

const (
	// WaitLimit is how long a wait that only a person can end counts as progress.
	WaitLimit = 15 * time.Minute
	// ActionRequired is the reason of a condition that says what a person has to do before anything goes on.
	ActionRequired = "ActionRequired"
)

// Waits remembers since when an operator waits for a person. It is not safe for use by several goroutines.
type Waits struct {
	Now func() time.Time

	seen map[string]wait
}

type wait struct {
	cause string
	since time.Time
}

// Forget drops all clocks.
func (w *Waits) Forget() { w.seen = nil }

// Degrade turns <prefix>Progressing into <prefix>Degraded when the wait for a cause has lasted WaitLimit, and returns when to look again (0: no
// need). Without a cause there is no wait; another cause starts the clock anew. Message names who has to do what. Reported are the conditions of
// the last report: a wait that was overdue before a restart of the operator is overdue after it.
func (w *Waits) Degrade(
	all []operatorv1.OperatorCondition, prefix, cause, message string, reported []operatorv1.OperatorCondition,
) ([]operatorv1.OperatorCondition, time.Duration) {
	if cause == "" {
		delete(w.seen, prefix)
		return all, 0
	}
	if w.seen == nil {
		w.seen = map[string]wait{}
	}
	now := w.Now()
	last, known := w.seen[prefix]
	if !known || last.cause != cause {
		last = wait{cause: cause, since: now}
		if !known && IsActionRequired(Find(reported, prefix+Degraded)) {
			last.since = now.Add(-WaitLimit)
		}
		w.seen[prefix] = last
	}
	if remaining := WaitLimit - now.Sub(last.since); remaining > 0 {
		return all, remaining
	}
	if degraded := Find(all, prefix+Degraded); degraded == nil || degraded.Status == operatorv1.ConditionFalse {
		all = Replace(all, Condition(prefix+Degraded, true, ActionRequired, "for more than 15 minutes: "+message))
	}
	return Replace(all, Condition(prefix+Progressing, false, ActionRequired, "")), 0
}

// IsActionRequired reports whether a condition, which may be nil, says that a person has to end a wait.
func IsActionRequired(condition *operatorv1.OperatorCondition) bool {
	return condition != nil && condition.Status == operatorv1.ConditionTrue && condition.Reason == ActionRequired
}
