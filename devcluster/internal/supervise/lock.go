package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked says that a living process holds the lock.
var ErrLocked = errors.New("locked by a running process")

// Lock takes the lock file at path, or fails with ErrLocked. The lock lasts until every process that inherited the file
// has closed it or ended, however it ended.
func Lock(path string) (*os.File, error) {
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
	return file, nil
}
