package status

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// FailureWindow is the time after which a transient error degrades the operator. A restart of the API server must not raise an alert.
const FailureWindow = 2 * time.Minute

// Failures remembers when each condition type began to fail.
type Failures struct {
	Now func() time.Time

	mutex sync.Mutex
	since map[string]time.Time
}

// Degraded returns the condition <prefix>Degraded for the outcome of a step. It also returns when to requeue (0: never). A terminal error degrades
// the operator at once. A transient error degrades the operator after FailureWindow.
func (f *Failures) Degraded(prefix string, err error) (operatorv1.OperatorCondition, time.Duration) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	kind := prefix + Degraded
	if err == nil {
		delete(f.since, kind)
		return Condition(kind, false, "", ""), 0
	}
	now := f.Now()
	if f.since == nil {
		f.since = map[string]time.Time{}
	}
	first, failing := f.since[kind]
	if !failing {
		first = now
		f.since[kind] = now
	}
	remaining := FailureWindow - now.Sub(first)
	switch {
	case Terminal(err) || remaining <= 0:
		return Condition(kind, true, "SyncError", text(err)), 0
	case apierrors.IsConflict(err):
		// A conflict needs only a retry.
		return Condition(kind, false, "", ""), remaining
	default:
		return Condition(kind, false, "Retrying", text(err)), remaining
	}
}

// text returns the error without controller-runtime's prefix "terminal error". This prefix means nothing to users.
func text(err error) string {
	return strings.ReplaceAll(err.Error(), "terminal error: ", "")
}

// Terminal reports whether a retry can't help. If one of several joined errors is terminal, the result is true.
func Terminal(err error) bool {
	if errors.Is(err, reconcile.TerminalError(nil)) {
		return true
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return slices.ContainsFunc(joined.Unwrap(), Terminal)
	}
	// The errors "forbidden" and "not found" are not terminal. One of several API servers can get a new role or namespace later than the others.
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// OnlyConflicts reports whether err is a write conflict, or several joined errors that are all write conflicts.
func OnlyConflicts(err error) bool {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return apierrors.IsConflict(err)
	}
	return !slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return !OnlyConflicts(one) })
}
