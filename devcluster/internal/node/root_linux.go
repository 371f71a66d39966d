package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// Folders in the node's root for files of this machine and of the cluster.
	etcDir     = "/etc/devcluster"
	logsDir    = "/var/log/devcluster"
	programDir = "/opt/devcluster"
)

// enterRoot makes the node's root file system, and makes it the root of this process. Most files of this root are in the cluster's directory. Devices
// and programs come from this machine, and the programs are read-only. The caller must be in a mount namespace of its own.
func enterRoot(c Config) error {
	root := c.root()
	if err := makeFolders(root); err != nil {
		return err
	}
	r := rooted{root: root}
	r.mount(root, "", "", unix.MS_BIND, "")
	r.programs()
	r.devices()
	r.kernel()
	r.tunables(filepath.Join(c.home(), "sysctl"))
	r.overlay("/etc", c.home())
	r.mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755")
	// Drivers have hostPath volumes of these folders. On other machines, udev creates the folders.
	r.folder("/run/udev")
	r.folder("/etc/udev")
	r.bind(c.Machine.Executable, filepath.Join(programDir, "devcluster"), unix.MS_RDONLY)
	r.bind(c.Machine.Programs, filepath.Join(programDir, "node"), unix.MS_RDONLY)
	// These programs can be outside of the folders that the node shares with this machine.
	r.bind(c.Machine.Runc, filepath.Join(programDir, "runc"), unix.MS_RDONLY)
	r.bind(c.Machine.Busybox, filepath.Join(programDir, "busybox"), unix.MS_RDONLY)
	r.bind(c.Machine.CNI, filepath.Join(programDir, "cni"), unix.MS_RDONLY)
	r.bind(c.Machine.Firewall, filepath.Join(programDir, "firewall"), unix.MS_RDONLY)
	r.bind(filepath.Join(c.Dir, "logs", c.Name), logsDir, 0)
	if r.err != nil {
		return r.err
	}
	if !c.Trial {
		if err := writeFiles(c); err != nil {
			return err
		}
	}
	return pivot(root)
}

func makeFolders(root string) error {
	for _, name := range []string{
		"dev", "proc", "sys", "run", "tmp", "var/tmp", "var/log", "var/lib", "var/cache", "opt", "etc", "usr",
		"root", "home", "mnt", "srv", "boot", "media", ".machine",
	} {
		if err := unlink(root, name); err != nil {
			return fmt.Errorf("make the node's root: %w", err)
		}
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return fmt.Errorf("make the node's root: %w", err)
		}
	}
	for _, name := range []string{"tmp", "var/tmp"} {
		if err := os.Chmod(filepath.Join(root, name), 0o777|fs.ModeSticky); err != nil {
			return fmt.Errorf("make the node's root: %w", err)
		}
	}
	if err := os.Symlink("../run", filepath.Join(root, "var/run")); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the node's root: %w", err)
	}
	return nil
}

// unlink removes a symbolic link on the way to a path below root. A pod may have made the link in an earlier run of the node. This program runs
// outside of the node, and would follow the link to a file of the machine.
func unlink(root, path string) error {
	at := root
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for links at %s: %w", at, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if err := os.Remove(at); err != nil {
				return fmt.Errorf("remove the link at %s: %w", at, err)
			}
			return nil
		}
	}
	return nil
}

// pivot makes the folder the root of this process, with shared mount propagation, and unmounts the old root.
func pivot(root string) error {
	const old = "/.machine"
	if err := unix.PivotRoot(root, root+old); err != nil {
		return fmt.Errorf("enter the node's root: %w", err)
	}
	err := errors.Join(
		os.Chdir("/"),
		unix.Unmount(old, unix.MNT_DETACH),
		os.Remove(old),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""),
	)
	if err != nil {
		return fmt.Errorf("leave this machine's root: %w", err)
	}
	return nil
}

// rooted mounts file systems below a node's root. It remembers the first error.
type rooted struct {
	root string
	err  error
}

func (r *rooted) folder(path string) {
	err := unlink(r.root, path)
	if err == nil {
		err = os.MkdirAll(filepath.Join(r.root, path), 0o755)
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("make %s of the node: %w", path, err)
	}
}

// mount mounts a file system at a path of the node. The root itself must be mounted first.
func (r *rooted) mount(source, target, kind string, flags uintptr, data string) {
	if r.err != nil {
		return
	}
	if err := unix.Mount(source, filepath.Join(r.root, target), kind, flags, data); err != nil {
		r.err = fmt.Errorf("mount %s at %s of the node: %w", source, target, err)
	}
}

// bind makes a file or folder of this machine visible at a path of the node.
func (r *rooted) bind(source, target string, flags uintptr) {
	if r.err != nil {
		return
	}
	info, err := os.Stat(source)
	if err == nil {
		err = unlink(r.root, target)
	}
	if err != nil {
		r.err = fmt.Errorf("share %s with the node: %w", source, err)
		return
	}
	path := filepath.Join(r.root, target)
	if info.IsDir() {
		err = os.MkdirAll(path, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err != nil && !errors.Is(err, unix.EROFS) {
		r.err = fmt.Errorf("share %s with the node: %w", source, err)
		return
	}
	r.mount(source, target, "", unix.MS_BIND, "")
	if flags != 0 {
		r.mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|flags, "")
	}
}

// programs shares this machine's programs and libraries with the node.
func (r *rooted) programs() {
	r.bind("/usr", "/usr", unix.MS_RDONLY)
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix"} {
		target, err := os.Readlink(name)
		switch {
		case err == nil:
			r.err = errors.Join(r.err, unlink(r.root, name), os.Symlink(target, filepath.Join(r.root, name)))
		case !errors.Is(err, fs.ErrNotExist):
			r.bind(name, name, unix.MS_RDONLY)
		}
	}
}

// devices shares this machine's devices with the node. Terminals and shared memory are the node's own.
func (r *rooted) devices() {
	r.mount("/dev", "/dev", "", unix.MS_BIND|unix.MS_REC, "")
	r.mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5")
	r.mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
}

// kernel mounts /proc, /sys and the cgroups for the node's namespaces.
func (r *rooted) kernel() {
	r.mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, "")
	r.mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, "")
	all, err := cgroupMounts()
	if err != nil {
		r.err = errors.Join(r.err, err)
		return
	}
	if !unified() {
		r.mount("tmpfs", cgroupRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, "mode=0755")
	}
	for _, h := range all {
		if err := os.MkdirAll(filepath.Join(r.root, h.path), 0o755); err != nil {
			r.err = errors.Join(r.err, err)
		}
		r.mount(h.kind, h.path, h.kind, unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, h.options)
	}
	r.links(all)
}

// tunables gives the node its own files for some settings in /proc/sys. A kubelet would change these for the whole machine (Kubernetes v1.36.3,
// pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables). This machine keeps its values.
func (r *rooted) tunables(home string) {
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	} {
		path := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		own := filepath.Join(home, name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(own), 0o755)
		}
		if err == nil {
			err = os.WriteFile(own, value, 0o600)
		}
		if err != nil {
			r.err = errors.Join(r.err, fmt.Errorf("give the node its own %s: %w", path, err))
		}
		r.mount(own, path, "", unix.MS_BIND, "")
	}
}

// links copies symbolic links between cgroup hierarchies from this machine to the node. Such a link leads from the name of a controller to a
// hierarchy that combines several controllers.
func (r *rooted) links(all []hierarchy) {
	entries, _ := os.ReadDir(cgroupRoot)
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(cgroupRoot, entry.Name()))
		if err != nil || !slices.ContainsFunc(all, func(h hierarchy) bool { return filepath.Base(h.path) == target }) {
			continue
		}
		if err := os.Symlink(target, filepath.Join(r.root, cgroupRoot, entry.Name())); err != nil {
			r.err = errors.Join(r.err, err)
		}
	}
}

// overlay makes a folder of this machine visible to the node. If the node changes files in it, the changes go into the cluster's directory.
func (r *rooted) overlay(name, home string) {
	upper, work := filepath.Join(home, filepath.Base(name)), filepath.Join(home, filepath.Base(name)+".work")
	for _, dir := range []string{upper, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			r.err = errors.Join(r.err, err)
		}
	}
	// In the mount options, a comma or a colon would end a path. So the options name the folders by the /proc paths of open file descriptors.
	opened := func(path string) string {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			r.err = errors.Join(r.err, fmt.Errorf("open %s: %w", path, err))
		}
		return fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	options := []string{"lowerdir=" + opened(name), "upperdir=" + opened(upper), "workdir=" + opened(work)}
	r.mount("overlay", name, "overlay", 0, strings.Join(options, ","))
}
