//go:build unix

package env

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFolder waits for the lock of a folder. The error is os.ErrNotExist if the folder was removed meanwhile.
func lockFolder(path string) (*os.File, error) {
	held, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), held.Close())
	}
	if _, err := os.Stat(path); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}

// removeUnlocked removes a folder, unless a process has locked it.
func removeUnlocked(path string) error {
	held, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	err = syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	return os.RemoveAll(path)
}
