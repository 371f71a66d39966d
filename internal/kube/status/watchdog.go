package status

import (
	"fmt"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// longestReconcile is longer than any healthy reconcile.
const longestReconcile = 10 * time.Minute

// Watchdog measures the running reconcile, for the liveness probe: only a restart cures a hung reconcile. The zero value is ready for use, and safe
// for concurrent use.
type Watchdog struct {
	// since is in nanoseconds; 0 while no reconcile is running.
	since atomic.Int64
}

// Begin marks the begin of a reconcile, and end its end.
func (b *Watchdog) Begin(now time.Time) (end func()) {
	b.since.Store(now.UnixNano())
	return func() { b.since.Store(0) }
}

// Check returns an error if the reconcile hangs. What names its object.
func (b *Watchdog) Check(what string, now time.Time) error {
	began := b.since.Load()
	if took := now.Sub(time.Unix(0, began)); began != 0 && took > longestReconcile {
		return fmt.Errorf("a reconcile of %s has been running for %s", what, took)
	}
	return nil
}

// Requeue returns the result of a reconcile. The queue has its own delay after an error, and would warn about a second one.
func Requeue(after time.Duration, err error) (reconcile.Result, error) {
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// MinRequeue returns the shortest delay; 0 means never.
func MinRequeue(delays ...time.Duration) time.Duration {
	var least time.Duration
	for _, delay := range delays {
		if least == 0 || (delay != 0 && delay < least) {
			least = delay
		}
	}
	return least
}
