package status

import (
	"fmt"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// longestReconcile is more than any request of a reconcile takes.
const longestReconcile = 10 * time.Minute

// Watchdog remembers since when a reconcile has been running, for the liveness probe: one that hangs is cured by a restart only. The zero
// value is ready for use, and safe for use by several goroutines.
type Watchdog struct {
	// since is in nanoseconds; 0 while no reconcile is running.
	since atomic.Int64
}

// Begin says that a reconcile begins; it ends with a call of end.
func (b *Watchdog) Begin(now time.Time) (end func()) {
	b.since.Store(now.UnixNano())
	return func() { b.since.Store(0) }
}

// Check returns an error if the reconcile of what hangs.
func (b *Watchdog) Check(what string, now time.Time) error {
	began := b.since.Load()
	if took := now.Sub(time.Unix(0, began)); began != 0 && took > longestReconcile {
		return fmt.Errorf("a reconcile of %s has been running for %s", what, took)
	}
	return nil
}

// Requeue tells a queue when to come again. After an error it does so by itself, and would log a warning about a delay beside it.
func Requeue(after time.Duration, err error) (reconcile.Result, error) {
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// MinRequeue returns the shortest one of delays; 0 means never.
func MinRequeue(delays ...time.Duration) time.Duration {
	var least time.Duration
	for _, delay := range delays {
		if least == 0 || (delay != 0 && delay < least) {
			least = delay
		}
	}
	return least
}
