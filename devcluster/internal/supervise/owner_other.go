//go:build !linux

package supervise

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// pollInterval is the interval of checks of a process.
const pollInterval = 250 * time.Millisecond

// WaitForEnd returns nil when the process with that ID has ended, or the context's error.
func WaitForEnd(ctx context.Context, pid int) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}
