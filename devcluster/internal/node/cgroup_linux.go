package node

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// cgroupPrefix begins the name of each cluster's cgroup. The rest of the name identifies the process that made the name: the supervisor of a
	// cluster, or the process of a trial.
	cgroupPrefix = "devcluster-"
	// emptyLimit limits how long devcluster waits until the kernel has emptied the cgroup of killed processes.
	emptyLimit = 10 * time.Second
)

// hierarchy is one mounted hierarchy of cgroups.
type hierarchy struct {
	path string
	// kind is cgroup or cgroup2.
	kind string
	// options are the mount options with which a node mounts the same hierarchy again. Field options is empty for cgroup2.
	options string
	// needs are the controllers that a node gets from this hierarchy for its containers. Only a hierarchy of cgroup v2 can have needs, because only in
	// cgroup v2, each parent must enable the controllers of its children.
	needs []string
}

// cgroupMounts lists the hierarchies that are mounted.
func cgroupMounts() ([]hierarchy, error) {
	mounts, err := mountInfo()
	if err != nil {
		return nil, err
	}
	var all []hierarchy
	for _, m := range mounts {
		if m.point != cgroupRoot && !strings.HasPrefix(m.point, cgroupRoot+"/") {
			continue
		}
		switch h := (hierarchy{path: m.point, kind: m.kind}); {
		case m.kind == "cgroup":
			h.options = v1Options(m.super)
			all = append(all, h)
		case m.kind == "cgroup2" && m.point == cgroupRoot:
			h.needs = neededControllers()
			all = append(all, h)
		case m.kind == "cgroup2":
			// This cgroup2 hierarchy is beside hierarchies of cgroup v1. It only groups processes, so it has no needs.
			all = append(all, h)
		}
	}
	return all, nil
}

// v1Options returns the mount options that identify a hierarchy of cgroup v1. These options name the hierarchy or its controllers.
func v1Options(super string) string {
	var kept []string
	for option := range strings.SplitSeq(super, ",") {
		switch {
		case option == "rw" || option == "ro" || option == "xattr" || strings.HasPrefix(option, "release_agent="):
		case strings.HasPrefix(option, "name="):
			kept = append(kept, "none", option)
		default:
			kept = append(kept, option)
		}
	}
	return strings.Join(kept, ",")
}

// neededControllers returns the controllers that a kubelet and its containers need.
func neededControllers() []string { return []string{"cpu", "memory", "pids"} }

// missingControllers returns the needed controllers that no hierarchy has.
func missingControllers(all []hierarchy) []string {
	var have []string
	for _, h := range all {
		if h.kind == "cgroup" {
			have = append(have, strings.Split(h.options, ",")...)
			continue
		}
		// A cgroup2 hierarchy beside cgroup v1 can have controllers, too. runc would not use them, so they do not count.
		if len(h.needs) > 0 {
			text, _ := os.ReadFile(filepath.Join(h.path, "cgroup.controllers"))
			have = append(have, strings.Fields(string(text))...)
		}
	}
	return slices.DeleteFunc(neededControllers(), func(name string) bool { return slices.Contains(have, name) })
}

func unified() bool {
	var stat unix.Statfs_t
	return unix.Statfs(cgroupRoot, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

// CgroupName returns the name of a cluster's cgroup. The name identifies this process, so that sweepCgroups can check whether the process still runs.
func CgroupName() string {
	return fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), startTime(os.Getpid()))
}

// startTime returns when a process started, in ticks since the machine started. If there is no such process, it returns 0.
func startTime(pid int) uint64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The process' name is in parentheses, and can contain every character. The start time is the 20th word after the name.
	words := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(words) < 20 {
		return 0
	}
	ticks, _ := strconv.ParseUint(words[19], 10, 64)
	return ticks
}

// alive reports whether the process that a cgroup's name identifies still runs.
func alive(cgroup string) bool {
	pid, ticks, _ := strings.Cut(strings.TrimPrefix(cgroup, cgroupPrefix), "-")
	number, err := strconv.Atoi(pid)
	return err == nil && ticks == strconv.FormatUint(startTime(number), 10)
}

// joinCgroups makes the node's cgroup in every hierarchy, and moves this process into these cgroups.
func joinCgroups(name string) error {
	all, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := h.join(name); err != nil {
			return err
		}
	}
	return nil
}

func (h hierarchy) join(name string) error {
	if err := makeCgroup(h, name); err != nil {
		return err
	}
	return enterCgroup(filepath.Join(h.path, name))
}

// enterCgroup moves this process.
func enterCgroup(path string) error {
	if err := os.WriteFile(filepath.Join(path, "cgroup.procs"), []byte("0"), 0o644); err != nil {
		return fmt.Errorf("join the cgroup %s: %w", path, err)
	}
	return nil
}

// ownCgroups makes the node's cgroup the root of the cgroups that this process sees. The process must already be in the node's cgroup. Below the new
// root, the node's containers can have cgroups with controllers. A cgroup namespace belongs to a thread, so the caller must have locked the thread.
func ownCgroups(name string) error {
	all, err := cgroupMounts()
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make the node's cgroup its root: %w", err)
	}
	for _, h := range all {
		if err := h.handDown(name); err != nil {
			return err
		}
	}
	return nil
}

// handDown gives controllers of cgroup v2 to the children of the node's cgroup. A cgroup can have either processes, or children with controllers.
// Only the root of the machine's cgroups can have both. So handDown first moves this process into a child.
func (h hierarchy) handDown(name string) error {
	if len(h.needs) == 0 {
		return nil
	}
	path := filepath.Join(h.path, name)
	child := filepath.Join(path, "init")
	if err := os.Mkdir(child, 0o755); err != nil {
		return fmt.Errorf("make cgroup %s: %w", child, err)
	}
	if err := enterCgroup(child); err != nil {
		return err
	}
	return h.enable(path)
}

// makeCgroup makes a cgroup and its parents. All of them get all needed controllers.
func makeCgroup(h hierarchy, name string) error {
	path := h.path
	for part := range strings.SplitSeq(name, "/") {
		if err := h.enable(path); err != nil {
			return err
		}
		parent := path
		path = filepath.Join(path, part)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("make cgroup %s: %w", path, err)
		}
		// A new cpuset of cgroup v1 has neither processors nor memory nodes, so no process could join it. Copy the processors and the memory nodes from the
		// parent.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(parent, file))
			if err != nil || h.kind == "cgroup2" {
				continue
			}
			if err := os.WriteFile(filepath.Join(path, file), value, 0o644); err != nil {
				return fmt.Errorf("set %s of cgroup %s: %w", file, path, err)
			}
		}
	}
	return nil
}

// enable enables the needed controllers for the children of a cgroup.
func (h hierarchy) enable(path string) error {
	file := filepath.Join(path, "cgroup.subtree_control")
	for _, controller := range h.needs {
		given, err := os.ReadFile(file)
		if err == nil && !slices.Contains(strings.Fields(string(given)), controller) {
			err = os.WriteFile(file, []byte("+"+controller), 0o644)
		}
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("write +%s into %s: %w: this cgroup contains processes, for example because a container has its own cgroup namespace",
				controller, file, err)
		}
		if err != nil {
			return fmt.Errorf("write +%s into %s: %w", controller, file, err)
		}
	}
	return nil
}

// removeCgroups removes a cluster's cgroup from all hierarchies. The cluster's processes must have ended.
func removeCgroups(name string) error {
	all, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := removeTree(filepath.Join(h.path, name), time.Now().Add(emptyLimit)); err != nil {
			return err
		}
	}
	return nil
}

// removeTree removes a cgroup and its children, which are the folders in it. The kernel itself removes the files.
func removeTree(path string, limit time.Time) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into cgroup %s: %w", path, err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(path, entry.Name()), limit); err != nil {
				return err
			}
		}
	}
	for {
		err := unix.Rmdir(path)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(limit) {
			return fmt.Errorf("remove cgroup %s: %w", path, err)
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // The kernel does not say when a cgroup is empty.
	}
}

// sweepCgroups removes the cgroups of clusters whose process no longer runs.
func sweepCgroups() error {
	all, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, h := range all {
		left, err := filepath.Glob(filepath.Join(h.path, cgroupPrefix+"*"))
		if err != nil {
			return fmt.Errorf("look for cgroups: %w", err)
		}
		for _, path := range left {
			if alive(filepath.Base(path)) {
				continue
			}
			if err := removeTree(path, time.Now().Add(emptyLimit)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mount has those fields of a line in mountinfo that devcluster needs.
type mount struct{ point, kind, super string }

func mountInfo() ([]mount, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	defer func() { _ = file.Close() }()
	var all []mount
	lines := bufio.NewScanner(file)
	// A line can be long, because the options of an overlay can name many folders.
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if len(head) > 4 && len(tail) > 2 {
			// In a path, mountinfo writes spaces, tabs, line feeds and backslashes as octal numbers.
			all = append(all, mount{unescape(head[4]), tail[0], tail[2]})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return all, nil
}

func unescape(path string) string {
	var plain strings.Builder
	for {
		before, after, found := strings.Cut(path, `\`)
		plain.WriteString(before)
		if !found {
			return plain.String()
		}
		number, err := uint64(0), strconv.ErrSyntax
		if len(after) >= 3 {
			number, err = strconv.ParseUint(after[:3], 8, 8)
		}
		if err != nil {
			plain.WriteByte('\\')
			path = after
			continue
		}
		plain.WriteByte(byte(number))
		path = after[3:]
	}
}

// MountsBelow returns the mounts below a directory.
func MountsBelow(dir string) ([]string, error) {
	// The kernel's list has the paths of mounts without symbolic links.
	resolved, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for mounts in %s: %w", dir, err)
	}
	mounts, err := mountInfo()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, m := range mounts {
		if strings.HasPrefix(m.point, strings.TrimSuffix(resolved, "/")+"/") {
			all = append(all, m.point)
		}
	}
	return all, nil
}
