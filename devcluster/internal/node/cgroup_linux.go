package node

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// cgroupPrefix begins the name of each cluster's cgroup. The process whose end stops the cluster follows.
	cgroupPrefix = "devcluster-"
	// emptyLimit limits the wait for the kernel to empty the cgroup of killed processes.
	emptyLimit = 10 * time.Second
)

// hierarchy is one mounted hierarchy of cgroups.
type hierarchy struct {
	path string
	// kind is cgroup or cgroup2.
	kind string
	// options mount it again; empty for cgroup2.
	options string
}

// cgroupMounts lists the hierarchies that are mounted.
func cgroupMounts() ([]hierarchy, error) {
	mounts, err := mountInfo()
	if err != nil {
		return nil, err
	}
	var all []hierarchy
	for _, m := range mounts {
		if (m.kind == "cgroup" || m.kind == "cgroup2") && filepath.HasPrefix(m.point, cgroupRoot) { //nolint:staticcheck // Both are clean.
			h := hierarchy{path: m.point, kind: m.kind}
			if m.kind == "cgroup" {
				h.options = v1Options(m.super)
			}
			all = append(all, h)
		}
	}
	return all, nil
}

// v1Options returns the options that name the controllers of a hierarchy.
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

func unified() bool {
	var stat unix.Statfs_t
	return unix.Statfs(cgroupRoot, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

// CgroupName names the cgroup of a cluster that lives as long as this process.
func CgroupName() string {
	return fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), startTime(os.Getpid()))
}

// startTime is when a process started, in ticks since the machine started; 0 without such a process.
func startTime(pid int) uint64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold anything. The time is the 20th word after it.
	words := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(words) < 20 {
		return 0
	}
	ticks, _ := strconv.ParseUint(words[19], 10, 64)
	return ticks
}

// alive reports whether the process in the name of a cgroup runs.
func alive(cgroup string) bool {
	pid, ticks, _ := strings.Cut(strings.TrimPrefix(cgroup, cgroupPrefix), "-")
	number, err := strconv.Atoi(pid)
	return err == nil && ticks == strconv.FormatUint(startTime(number), 10)
}

// joinCgroups makes the node's cgroup in every hierarchy, and moves this process into it.
func joinCgroups(name string) error {
	all, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := makeCgroup(h, name); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(h.path, name, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return fmt.Errorf("join the node's cgroup: %w", err)
		}
	}
	return nil
}

// makeCgroup makes a cgroup and its parents, with all controllers.
func makeCgroup(h hierarchy, name string) error {
	path := h.path
	for part := range strings.SplitSeq(name, "/") {
		if h.kind == "cgroup2" {
			enableControllers(path)
		}
		parent := path
		path = filepath.Join(path, part)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("make cgroup %s: %w", path, err)
		}
		// A new cpuset has no processors and no memory, so no process can join it.
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

// enableControllers gives the children of a cgroup each controller of their parent. It ignores errors: a program that needs a missing controller
// reports it.
func enableControllers(path string) {
	have, _ := os.ReadFile(filepath.Join(path, "cgroup.controllers"))
	given, _ := os.ReadFile(filepath.Join(path, "cgroup.subtree_control"))
	for controller := range strings.FieldsSeq(string(have)) {
		if !strings.Contains(" "+string(given)+" ", controller) {
			_ = os.WriteFile(filepath.Join(path, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		}
	}
}

// removeCgroups removes a cluster's cgroup from all hierarchies, once its processes have ended.
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

// removeTree removes a cgroup and its children, which are its folders. The kernel removes its files.
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

// sweepCgroups removes the cgroups of clusters whose process was killed.
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

// mount is a line of mountinfo.
type mount struct{ point, kind, super string }

func mountInfo() ([]mount, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	defer func() { _ = file.Close() }()
	var all []mount
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if len(head) > 4 && len(tail) > 2 {
			// A space in a path is written as an octal number.
			all = append(all, mount{strings.ReplaceAll(head[4], `\040`, " "), tail[0], tail[2]})
		}
	}
	return all, lines.Err()
}

// MountsBelow lists the mounts below a directory.
func MountsBelow(dir string) ([]string, error) {
	mounts, err := mountInfo()
	var all []string
	for _, m := range mounts {
		if strings.HasPrefix(m.point, dir+"/") {
			all = append(all, m.point)
		}
	}
	return all, err
}
