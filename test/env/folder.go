package env

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Folder makes a temporary folder, whose name begins with the prefix. It is locked until it is removed or this process ends. Folders of the same
// prefix that nothing locks were left by killed processes: Folder removes them.
func Folder(prefix string) (path string, remove func(), err error) {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return "", nil, err
	}
	for _, folder := range left {
		if err := removeUnlocked(folder); err != nil {
			return "", nil, fmt.Errorf("folder of a killed process: %w", err)
		}
	}
	for {
		path, err := os.MkdirTemp("", prefix)
		if err != nil {
			return "", nil, err
		}
		held, err := lockFolder(path)
		if errors.Is(err, os.ErrNotExist) {
			// Another process took this folder for one of a killed run, and removed it before it was locked.
			continue
		}
		if err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(path))
		}
		return path, func() {
			_ = os.RemoveAll(path)
			_ = held.Close()
		}, nil
	}
}
