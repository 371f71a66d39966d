package status

import (
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
)

const (
	// WaitLimit is the time for which a wait for a person's action counts as progress. After this time, the wait counts as a failure.
	WaitLimit = 15 * time.Minute
	// ActionRequired is the reason of a condition that waits for a person's action.
	ActionRequired = "ActionRequired"

	overdue = "for more than 15 minutes: "
)

// Waits remembers when an operator began to wait for a person. It is not safe for concurrent use.
type Waits struct {
	Now func() time.Time

	seen map[string]wait
}

type wait struct {
	cause string
	since time.Time
}

// Reset drops all clocks.
func (w *Waits) Reset() { w.seen = nil }

// Degrade turns <prefix>Progressing into <prefix>Degraded when the wait for a cause has lasted WaitLimit. It also returns when to requeue (0: never).
// An empty cause means that the operator does not wait. A new cause restarts the clock. Argument "message" says who has to do what. Argument
// "reported" has the last reported conditions. If these conditions say that the wait is overdue, the wait stays overdue. So a restarted operator and
// a second replica report the same.
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

// KeepOverdue copies the overdue conditions of the last report. Callers use it if an error hides whether the wait has ended.
func KeepOverdue(all []operatorv1.OperatorCondition, prefix string, reported []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	if degraded := Find(reported, prefix+Degraded); IsActionRequired(degraded) {
		all = degrade(all, *degraded)
	}
	if progressing := Find(reported, prefix+Progressing); progressing != nil && progressing.Reason == ActionRequired {
		all = Replace(all, *progressing)
	}
	return all
}

// degrade replaces the condition, unless the present condition reports another failure.
func degrade(all []operatorv1.OperatorCondition, by operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	if degraded := Find(all, by.Type); degraded == nil || degraded.Status == operatorv1.ConditionFalse {
		return Replace(all, by)
	}
	return all
}

// isOverdue reports whether the last report says that the wait for a cause is overdue. It also reads the summary condition Degraded, because
// operators that share the status of one object write only this condition. The report names the cause in the message of the condition, or in the
// reason of condition Available.
func isOverdue(reported []operatorv1.OperatorCondition, prefix, cause string) bool {
	sum := Find(reported, Degraded)
	if sum != nil && sum.Status == operatorv1.ConditionTrue && strings.Contains(sum.Message, prefix+": "+overdue+cause) {
		return true
	}
	own, available := Find(reported, prefix+Degraded), Find(reported, prefix+Available)
	return IsActionRequired(own) && (strings.Contains(own.Message, cause) || available != nil && available.Reason == cause)
}

// IsActionRequired reports whether a condition waits for a person's action. The condition can be nil.
func IsActionRequired(condition *operatorv1.OperatorCondition) bool {
	return condition != nil && condition.Status == operatorv1.ConditionTrue && condition.Reason == ActionRequired
}
