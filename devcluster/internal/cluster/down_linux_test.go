package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A folder of this machine that a real node has mounted is not emptied with the cluster's directory, whatever the path to that is.
func TestADirectoryWithAMountIsKept(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	folder := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"plain": filepath.Join(folder, "cluster"), "odd": filepath.Join(link, "a \\040\tb")} {
		t.Run(name, func(t *testing.T) {
			l := layout{dir: dir}
			lock, err := l.claim(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := (&State{Phase: Ready, Options: validOptions()}).save(l); err != nil {
				t.Fatal(err)
			}
			precious, mounted := filepath.Join(t.TempDir(), "file"), l.path("nodes", "usr")
			if err := os.WriteFile(precious, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(mounted, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount(filepath.Dir(precious), mounted, "", unix.MS_BIND, ""); err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
			_ = lock.Close()
			_, claimed := l.claim(t.Context())
			for step, err := range map[string]error{"up": claimed, "down": Down(t.Context(), dir), "a failed start": l.remove()} {
				if err == nil || !strings.Contains(err.Error(), "unmount it first") {
					t.Errorf("%s: %v", step, err)
				}
			}
			if _, err := os.Stat(precious); err != nil {
				t.Error(err)
			}
			if err := unix.Unmount(mounted, 0); err != nil {
				t.Fatal(err)
			}
			if err := Down(t.Context(), dir); err != nil {
				t.Error(err)
			}
		})
	}
}
