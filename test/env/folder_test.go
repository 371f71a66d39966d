package env

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFolderRemovesThoseOfKilledProcesses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, remove, err := Folder("mine-")
	Must(t, err)
	defer remove()
	left := filepath.Join(os.TempDir(), "mine-left")
	other := filepath.Join(os.TempDir(), "other-left")
	for _, folder := range []string{left, other} {
		Must(t, os.Mkdir(folder, 0o755))
		Must(t, os.WriteFile(filepath.Join(folder, "images.tar"), []byte("large"), 0o600))
	}
	next, removeNext, err := Folder("mine-")
	Must(t, err)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the folder of a killed process is still there: %v", err)
	}
	for _, folder := range []string{used, next, other} {
		if _, err := os.Stat(folder); err != nil {
			t.Errorf("a folder that is in use, or of another prefix: %v", err)
		}
	}
	removeNext()
	if _, err := os.Stat(next); !os.IsNotExist(err) {
		t.Errorf("the folder is still there after its end: %v", err)
	}
}
