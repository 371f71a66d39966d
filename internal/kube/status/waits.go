package status

import (
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
)

const (
	// WaitLimit is how long a wait that only a person can end counts as progress.
	WaitLimit = 15 * time.Minute
	// ActionRequired is the reason of a condition that says what a person has to do before anything goes on.
	ActionRequired = "ActionRequired"

	overdue = "for more than 15 minutes: "
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
// the last report: a wait for the same cause that is overdue there is overdue. A restarted operator and a second copy of it agree with the report.
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
	}
	if now.Sub(last.since) < WaitLimit && isOverdue(reported, prefix, cause) {
		last.since = now.Add(-WaitLimit)
	}
	w.seen[prefix] = last
	if remaining := WaitLimit - now.Sub(last.since); remaining > 0 {
		return all, remaining
	}
	all = degrade(all, Condition(prefix+Degraded, true, ActionRequired, overdue+message))
	return Replace(all, Condition(prefix+Progressing, false, ActionRequired, "")), 0
}

// KeepOverdue carries over from the last report what Degrade has made of a wait. It is for an operator that can't find out whether the wait lasts.
func KeepOverdue(all []operatorv1.OperatorCondition, prefix string, reported []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	if degraded := Find(reported, prefix+Degraded); IsActionRequired(degraded) {
		all = degrade(all, *degraded)
	}
	if progressing := Find(reported, prefix+Progressing); progressing != nil && progressing.Reason == ActionRequired {
		all = Replace(all, *progressing)
	}
	return all
}

// degrade hides no other failure.
func degrade(all []operatorv1.OperatorCondition, by operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	if degraded := Find(all, by.Type); degraded == nil || degraded.Status == operatorv1.ConditionFalse {
		return Replace(all, by)
	}
	return all
}

// isOverdue reports whether the last report calls the wait for a cause overdue. Operators that share a status write only the sum. A cause that is
// a reason is not in the message, but in condition Available.
func isOverdue(reported []operatorv1.OperatorCondition, prefix, cause string) bool {
	sum := Find(reported, Degraded)
	if sum != nil && sum.Status == operatorv1.ConditionTrue && strings.Contains(sum.Message, prefix+": "+overdue+cause) {
		return true
	}
	own, available := Find(reported, prefix+Degraded), Find(reported, prefix+Available)
	return IsActionRequired(own) && (strings.Contains(own.Message, cause) || available != nil && available.Reason == cause)
}

// IsActionRequired reports whether a condition, which may be nil, says that a person has to end a wait.
func IsActionRequired(condition *operatorv1.OperatorCondition) bool {
	return condition != nil && condition.Status == operatorv1.ConditionTrue && condition.Reason == ActionRequired
}
