package supervise

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// pollInterval is the time limit of one poll, in milliseconds. When the context ends, WaitForEnd returns within this time.
const pollInterval = 1000

// WaitForEnd returns nil when the process with this ID has ended. If the context ends first, it returns the error of the context. A process that
// its parent has not reaped yet also counts as ended.
func WaitForEnd(ctx context.Context, pid int) error {
	// A process ID can later belong to another process. A pidfd can't.
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
