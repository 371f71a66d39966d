package supervise

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// pollInterval bounds how long a finished wait keeps its goroutine, in milliseconds.
const pollInterval = 1000

// WaitForEnd returns nil when the process with that ID has ended, or the context's error. A process that has ended but
// has not been reaped by its parent counts as ended.
func WaitForEnd(ctx context.Context, pid int) error {
	// Unlike a process ID, a pidfd never refers to another process.
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, pollInterval)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("watch process %d: %w", pid, err)
		}
		if n > 0 {
			return nil
		}
	}
	return ctx.Err()
}
