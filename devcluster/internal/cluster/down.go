package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// downLimit is the time after which Down kills the supervisor. The supervisor's own time limits are much shorter.
const downLimit = 10 * time.Second

// Down stops the cluster of the directory, and removes the directory. If the directory has no cluster, Down does nothing. Down does not remove a
// directory with other content.
func Down(ctx context.Context, dir string) error {
	l, err := newLayout(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into --dir: %w", err)
	}
	if _, err := os.Stat(l.marker()); err != nil {
		return fmt.Errorf("--dir %s is not the directory of a devcluster: nothing was stopped or removed", l.dir)
	}
	lock, err := l.stop(ctx)
	if err != nil {
		return err
	}
	// Keep the lock until the directory is gone, so that no other cluster starts in the directory.
	defer func() { _ = lock.Close() }()
	if err := l.finish(ctx); err != nil {
		return err
	}
	return l.remove()
}

// remove removes the cluster's directory. If the caller passes names, remove removes only these files and folders in the directory.
func (l layout) remove(names ...string) error {
	// A node with a kubelet has its own mount namespace, in which it mounts folders of this machine below the cluster's directory. If such a mount is
	// visible in the namespace of this process, the removal would delete the files of the mounted folder.
	mounts, err := node.MountsBelow(l.dir)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("remove the cluster's directory: %s is mounted there; unmount it first", strings.Join(mounts, ", "))
	}
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names {
		if err := os.RemoveAll(l.path(name)); err != nil {
			return fmt.Errorf("remove the cluster's directory: %w", err)
		}
	}
	return nil
}

// sweep removes the leftovers of nodes with a kubelet outside of the cluster's directory.
func (l layout) sweep(state *State) error {
	if state.Network == nil {
		return nil
	}
	return node.Sweep(state.Cgroup, state.Network)
}

// stop ends the supervisor, and returns the lock. If the supervisor has removed the directory, the lock is nil.
func (l layout) stop(ctx context.Context) (*os.File, error) {
	lock, err := supervise.Lock(l.marker())
	if !errors.Is(err, supervise.ErrLocked) {
		return lock, err
	}
	state, err := loadState(l)
	if err != nil {
		return nil, err
	}
	return l.endSupervisor(ctx, state.Supervisor)
}

// finish ends the processes that have outlived the supervisor. It also removes the leftovers of nodes with a kubelet.
func (l layout) finish(ctx context.Context) error {
	state, err := loadState(l)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := endOrphans(ctx, state.Processes); err != nil {
		return err
	}
	return l.sweep(state)
}

func (l layout) endSupervisor(ctx context.Context, pid int) (lock *os.File, err error) {
	limit, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	unlocked := func(context.Context) bool {
		if _, gone := os.Stat(l.marker()); errors.Is(gone, fs.ErrNotExist) {
			return true
		}
		lock, err = supervise.Lock(l.marker())
		return err == nil
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("stop the supervisor, process %d: %w", pid, err)
		}
		if poll(limit, unlocked) == nil {
			return lock, nil
		}
		// The next signal is SIGKILL. After it, wait without downLimit, because the kernel releases the lock of a killed process at once.
		limit = ctx
	}
	return nil, fmt.Errorf("the supervisor, process %d, was killed but has not ended: it still holds %s", pid, l.marker())
}

// endOrphans stops components that still run after the end of their supervisor.
func endOrphans(ctx context.Context, processes []supervise.Status) error {
	for _, process := range processes {
		if process.State != supervise.Running || !supervise.Is(process.PID, process.Name) {
			continue
		}
		if err := syscall.Kill(process.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s, process %d: %w", process.Name, process.PID, err)
		}
		limit, cancel := context.WithTimeout(ctx, downLimit)
		err := supervise.WaitForEnd(limit, process.PID)
		cancel()
		if err != nil {
			return fmt.Errorf("stop %s, process %d: it does not end: %w", process.Name, process.PID, err)
		}
	}
	return nil
}
