package node

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// programs returns the names of the programs that "make node-programs" builds, in addition to devcluster.
func programs() []string { return []string{"containerd", "containerd-shim-runc-v2", "ctr", "pause"} }

// plugins returns the names of the CNI plugins that a node needs.
func plugins() []string { return []string{"bridge", "host-local", "loopback", "portmap"} }

// Check finds the programs and folders of this machine that a cluster's nodes with a kubelet need. Argument "dir" is the directory of the cluster.
// The error is one sentence that names everything that is missing.
func Check(dir string) (Machine, error) {
	if os.Geteuid() != 0 {
		return Machine{}, errors.New("real nodes need root: run devcluster as root, or without --real-nodes")
	}
	executable, err := os.Executable()
	if err != nil {
		return Machine{}, fmt.Errorf("find the devcluster binary: %w", err)
	}
	m := Machine{Executable: executable, Programs: filepath.Join(filepath.Dir(executable), "node")}
	missing := kernelLacks(dir)
	for _, name := range programs() {
		if _, err := os.Stat(filepath.Join(m.Programs, name)); err != nil {
			missing = append(missing, filepath.Join(m.Programs, name)+" (make node-programs)")
		}
	}
	find := func(into *string, name, debian string) {
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			missing = append(missing, name+" (Debian's package "+debian+")")
		}
		*into = path
	}
	find(&m.Runc, "runc", "runc")
	var iptables string
	find(&iptables, "iptables", "iptables")
	m.Firewall = filepath.Dir(iptables)
	find(&m.Busybox, "busybox", "busybox-static")
	if m.Busybox != "" && !isStatic(m.Busybox) {
		missing = append(missing, "a busybox that is linked statically (Debian's package busybox-static)")
	}
	if m.CNI = findPlugins(); m.CNI == "" {
		missing = append(missing, "CNI plugins (Debian's package containernetworking-plugins)")
	}
	if len(missing) > 0 {
		return m, errors.New("real nodes need what this machine lacks: " + strings.Join(missing, ", "))
	}
	m.Kernel, m.CanRaisePriority = kernel(), hasCapability(unix.CAP_SYS_RESOURCE)
	return m, nil
}

// kernelLacks returns the needs of nodes with a kubelet that the kernel, this process or the disk does not meet. Argument "dir" is the directory of
// the cluster.
func kernelLacks(dir string) []string {
	var missing []string
	for _, name := range []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SYS_CHROOT", "CAP_MKNOD"} {
		if !hasCapability(capabilities()[name]) {
			missing = append(missing, "the capability "+name)
		}
	}
	for _, kind := range []string{"mnt", "pid", "net", "uts", "ipc", "cgroup"} {
		if _, err := os.Stat("/proc/self/ns/" + kind); err != nil {
			missing = append(missing, "the kernel's "+kind+" namespaces")
		}
	}
	found, err := cgroupMounts()
	if err != nil || len(found) == 0 || unix.Access(found[0].path, unix.W_OK) != nil {
		missing = append(missing, "cgroups that can be written")
	}
	for _, name := range missingControllers(found) {
		missing = append(missing, "the cgroup controller "+name)
	}
	if onOverlay(dir) {
		missing = append(missing, "a disk for "+dir+", because an overlay can't be mounted on another overlay, which that directory is on")
	}
	return missing
}

// onOverlay reports whether a directory is on an overlay, such as the file system of a container. The directory need not exist yet.
func onOverlay(dir string) bool {
	var stat unix.Statfs_t
	for unix.Statfs(dir, &stat) != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return stat.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// isStatic reports whether a program needs no dynamic loader. In an image that contains only this program, there is no loader.
func isStatic(path string) bool {
	file, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	return !slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

func findPlugins() string {
	for _, dir := range []string{"/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin"} {
		if !slices.ContainsFunc(plugins(), func(name string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err != nil
		}) {
			return dir
		}
	}
	return ""
}

func capabilities() map[string]int {
	return map[string]int{
		"CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN,
		"CAP_SYS_CHROOT": unix.CAP_SYS_CHROOT, "CAP_MKNOD": unix.CAP_MKNOD,
	}
}

// hasCapability reports whether this process has a capability that is in effect.
func hasCapability(number int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var words [2]unix.CapUserData
	return unix.Capget(&header, &words[0]) == nil && words[number/32].Effective&(1<<(number%32)) != 0
}

// kernel returns texts that say which kernel features for storage drivers exist and which are missing.
func kernel() []string {
	version := "cgroup v2"
	if !unified() {
		version = "cgroup v1 (v2 is missing)"
	}
	all := []string{version}
	systems, _ := os.ReadFile("/proc/filesystems")
	say := func(name string, there bool) {
		if there {
			all = append(all, name)
		} else {
			all = append(all, "no "+name)
		}
	}
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	say("CAP_SYS_RESOURCE", hasCapability(unix.CAP_SYS_RESOURCE))
	say("NFS", strings.Contains(string(systems), "\tnfs4\n"))
	say("SELinux", exists("/sys/fs/selinux/enforce"))
	say("/dev/fuse", exists("/dev/fuse"))
	return all
}
