package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A pod of the node's last life has put links to this machine's folders into the node's root.
func TestANodeThatStartsAgainFollowsNoLinksOutOfItsRoot(t *testing.T) {
	config := Config{Dir: t.TempDir(), Name: "worker-0"}
	outside := t.TempDir()
	if err := makeFolders(config.root()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"opt", "var/tmp", ".machine", "etc/devcluster", "etc/hosts"} {
		path := filepath.Join(config.root(), name)
		_ = os.Remove(path)
		if err := os.Symlink(outside, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := makeFolders(config.root()); err != nil {
		t.Fatal(err)
	}
	if err := config.writeAll(map[string][]byte{"/etc/devcluster/cni/a": []byte("a"), "/etc/hosts": []byte("b")}); err != nil {
		t.Fatal(err)
	}
	r := rooted{root: config.root()}
	if r.folder("/opt/devcluster"); r.err != nil {
		t.Error(r.err)
	}
	info, err := os.Stat(outside)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of this machine has the mode %s (%v)", info.Mode(), err)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("%v were written outside of the root (%v)", left, err)
	}
	for _, name := range []string{"opt", "var/tmp", "etc/devcluster", "etc/hosts"} {
		if info, err := os.Lstat(filepath.Join(config.root(), name)); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			t.Errorf("%s is still a link (%v)", name, err)
		}
	}
	// Each root has this link.
	if target, err := os.Readlink(filepath.Join(config.root(), "var/run")); err != nil || target != "../run" {
		t.Errorf("var/run leads to %s (%v)", target, err)
	}
}
