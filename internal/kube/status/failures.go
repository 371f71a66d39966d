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

// FailureWindow is how long a transient error may last before it degrades the operator. An API server that restarts
// must not raise an alert.
const FailureWindow = 2 * time.Minute

// Failures remembers since when each condition type has been failing.
type Failures struct {
	Now func() time.Time

	mutex sync.Mutex
	since map[string]time.Time
}

// Degraded gives the condition <prefix>Degraded for the outcome of a step, and when to look again (0: no need). A
// terminal error degrades at once, a transient one after FailureWindow.
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
		// Somebody wrote at the same moment; the retry is all that is needed.
		return Condition(kind, false, "", ""), remaining
	default:
		return Condition(kind, false, "Retrying", text(err)), remaining
	}
}

// text is an error without what says that it is not retried, which is no news to people.
func text(err error) string {
	return strings.ReplaceAll(err.Error(), "terminal error: ", "")
}

// Terminal reports whether an error stays until somebody changes something. Of joined errors one is enough.
func Terminal(err error) bool {
	if errors.Is(err, reconcile.TerminalError(nil)) {
		return true
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return slices.ContainsFunc(joined.Unwrap(), Terminal)
	}
	// Not "forbidden" and "not found": of several API servers one can know a new role or namespace later than another.
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// OnlyConflicts reports whether all of joined errors are write conflicts: somebody else wrote at the same moment.
func OnlyConflicts(err error) bool {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return apierrors.IsConflict(err)
	}
	return !slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return !OnlyConflicts(one) })
}
