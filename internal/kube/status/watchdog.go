package status

import (
	"fmt"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// longestReconcile is longer than any healthy reconcile.
const longestReconcile = 10 * time.Minute

// Watchdog measures the running reconcile for the liveness probe, because only a restart cures a hung reconcile. The zero value is ready for use.
// Watchdog is safe for concurrent use.
type Watchdog struct {
	// since is the start of the running reconcile, in nanoseconds. It is 0 while no reconcile is running.
	since atomic.Int64
}

// Begin marks the beginning of a reconcile. Result "end" is a function that marks the end of the reconcile.
func (b *Watchdog) Begin(now time.Time) (end func()) {
	b.since.Store(now.UnixNano())
	return func() { b.since.Store(0) }
}

// Check returns an error if the reconcile hangs. Argument "what" names the object of the reconcile.
func (b *Watchdog) Check(what string, now time.Time) error {
	began := b.since.Load()
	if took := now.Sub(time.Unix(0, began)); began != 0 && took > longestReconcile {
		return fmt.Errorf("a reconcile of %s has been running for %s", what, took)
	}
	return nil
}

// Requeue returns the result of a reconcile. After an error, the result has no delay, because the queue has its own delay, and would warn about a
// second delay.
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
