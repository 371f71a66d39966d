package supervise

import (
	"os"
	"path/filepath"
	"testing"
)

// After the removal of a locked file, another process can lock the next file.
func TestALockIsThatOfTheFileThatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if !isAt(lock, path) {
		t.Error("the lock is not at its path")
	}
	if err := os.Remove(path); err != nil || isAt(lock, path) {
		t.Errorf("the lock is at its path after its removal (%v)", err)
	}
	other, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if isAt(lock, path) || !isAt(other, path) {
		t.Error("the lock of the file that was removed counts as that of the new one")
	}
}
