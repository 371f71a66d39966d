//go:build !linux

package supervise

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// pollInterval is the time between two checks of a process.
const pollInterval = 250 * time.Millisecond

// WaitForEnd returns nil when the process with this ID has ended. If the context ends first, it returns the error of the context.
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
