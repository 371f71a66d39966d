package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestCgroupsAreOfAProcessThatLives(t *testing.T) {
	own := CgroupName()
	if !alive(own) {
		t.Errorf("%s: this process lives", own)
	}
	// A process of the same number, which was started at another time.
	for _, other := range []string{own + "1", fmt.Sprintf("%s%d", cgroupPrefix, os.Getpid()), cgroupPrefix + "x-1", cgroupPrefix} {
		if alive(other) {
			t.Errorf("%s: there is no such process", other)
		}
	}
}

func TestHierarchiesAreMountedAgainAsTheyAre(t *testing.T) {
	for super, want := range map[string]string{
		"rw,cpu,cpuacct": "cpu,cpuacct",
		"rw,xattr,release_agent=/lib/systemd/agent,name=systemd": "none,name=systemd",
	} {
		if got := v1Options(super); got != want {
			t.Errorf("%s: got %s, want %s", super, got, want)
		}
	}
}

func TestPathsOfMountsAreReadAsTheKernelWritesThem(t *testing.T) {
	for escaped, want := range map[string]string{
		`/plain`: "/plain", `/a\040b\011c\012d\134e`: "/a b\tc\nd\\e", `/end\0`: `/end\0`, `/not\999`: `/not\999`,
	} {
		if got := unescape(escaped); got != want {
			t.Errorf("%s: got %q, want %q", escaped, got, want)
		}
	}
}

func TestMissingControllersAreNamed(t *testing.T) {
	v2 := hierarchy{path: t.TempDir(), kind: "cgroup2", needs: neededControllers()}
	if err := os.WriteFile(filepath.Join(v2.path, "cgroup.controllers"), []byte("cpuset cpu io pids\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	beside := v2
	beside.needs = nil
	for name, test := range map[string]struct {
		all  []hierarchy
		want []string
	}{
		"v2":              {[]hierarchy{v2}, []string{"memory"}},
		"v1":              {[]hierarchy{{kind: "cgroup", options: "cpu,cpuacct"}, {kind: "cgroup", options: "memory"}}, []string{"pids"}},
		"v2 beside v1":    {[]hierarchy{beside}, []string{"cpu", "memory", "pids"}},
		"similar names":   {[]hierarchy{{kind: "cgroup", options: "cpuset,none,name=memory"}}, []string{"cpu", "memory", "pids"}},
		"of two versions": {[]hierarchy{{kind: "cgroup", options: "memory"}, v2}, []string{}},
	} {
		if diff := cmp.Diff(test.want, missingControllers(test.all)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// A node on cgroup v2, with the controllers that this machine's hierarchy has.
func TestTheCgroupOfANodeIsItsRootAndHandsControllersDown(t *testing.T) {
	const variable, name = "DEVCLUSTER_TEST_CGROUP", "node"
	if path := os.Getenv(variable); path != "" {
		// It is a process of its own: cgroups are those of a process, and its namespace is left with it.
		runtime.LockOSThread()
		text, err := ownCgroup(path, name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintln(os.Stderr, text)
		return
	}
	h := secondVersion(t)
	parent := filepath.Join(h.path, CgroupName())
	t.Cleanup(func() {
		if err := removeCgroups(CgroupName()); err != nil {
			t.Error(err)
		}
	})
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	command.Env = append(os.Environ(), variable+"="+parent)
	var output strings.Builder
	command.Stderr = &output
	if out, err := command.Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := fmt.Sprintf("0::/init controllers %v\n", h.needs)
	if got := output.String(); got != want {
		t.Errorf("the node has %q, want %q", got, want)
	}
}

// ownCgroup creates a cgroup as a node does, and returns the cgroups of this process and of a container there.
func ownCgroup(parent, name string) (string, error) {
	h := hierarchy{path: filepath.Dir(parent), kind: "cgroup2"}
	text, err := os.ReadFile(filepath.Join(h.path, "cgroup.controllers"))
	if err != nil {
		return "", err
	}
	h.needs = strings.Fields(string(text))
	name = filepath.Join(filepath.Base(parent), name)
	if err := errors.Join(h.join(name), unix.Unshare(unix.CLONE_NEWCGROUP), h.handDown(name)); err != nil {
		return "", err
	}
	container := filepath.Join(h.path, name, "container")
	if err := os.Mkdir(container, 0o700); err != nil {
		return "", err
	}
	lines, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/cgroup", unix.Gettid()))
	if err != nil {
		return "", err
	}
	have, err := os.ReadFile(filepath.Join(container, "cgroup.controllers"))
	for line := range strings.Lines(string(lines)) {
		if strings.HasPrefix(line, "0::") {
			return fmt.Sprintf("%s controllers %v", strings.TrimSpace(line), strings.Fields(string(have))), err
		}
	}
	return "", fmt.Errorf("this process has no cgroup of version 2: %s", lines)
}

// secondVersion is this machine's hierarchy of cgroup v2, which may be one beside cgroup v1. The test gives its controllers back.
func secondVersion(t *testing.T) hierarchy {
	t.Helper()
	all, err := cgroupMounts()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(h hierarchy) bool { return h.kind == "cgroup2" })
	if i < 0 || unix.Access(all[i].path, unix.W_OK) != nil || os.Geteuid() != 0 {
		t.Skip("this machine has no cgroup v2 that can be written")
	}
	h := all[i]
	text, err := os.ReadFile(filepath.Join(h.path, "cgroup.controllers"))
	if err != nil {
		t.Fatal(err)
	}
	h.needs = strings.Fields(string(text))
	file := filepath.Join(h.path, "cgroup.subtree_control")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, controller := range h.needs {
			if !slices.Contains(strings.Fields(string(before)), controller) {
				_ = os.WriteFile(file, []byte("-"+controller), 0o600)
			}
		}
	})
	return h
}
