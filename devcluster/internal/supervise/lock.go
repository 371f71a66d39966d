package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked means that a living process holds the lock.
var ErrLocked = errors.New("locked by a running process")

// Lock takes the lock on the file at path. If another process has the lock, it fails with ErrLocked. The lock lasts until every process that
// inherited the file has closed the file or has ended, in whatever way.
func Lock(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock file: %w", err)
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = file.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, fmt.Errorf("%s: %w", path, ErrLocked)
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if isAt(file, path) {
			return file, nil
		}
		// The process that had the lock removed the file after this process opened it. Another process may already have the lock of a new file at this
		// path, so try again.
		_ = file.Close()
	}
}

func isAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	found, foundErr := os.Stat(path)
	return err == nil && foundErr == nil && os.SameFile(opened, found)
}
