package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// trialNode is the name of the node. The process of the node has this name after "node-".
	trialNode = "check"
	// trialLimit is the time after which Try ends a trial that hangs.
	trialLimit = 30 * time.Second
	// trialMemory is the memory limit of the container, in bytes. Without the memory controller, runc refuses this limit.
	trialMemory = 64 << 20
)

// Try starts a node in the same way as in a cluster, but without kubelet, containerd and network. The node runs one container, and ends. Try puts the
// files of the node into the directory. If the directory does not exist, Try uses the nearest folder above that exists. Before Try returns, it
// removes everything that the node has left.
func Try(ctx context.Context, machine Machine, dir string) (err error) {
	for !isFolder(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	scratch, err := os.MkdirTemp(dir, ".devcluster-check-")
	if err != nil {
		return fmt.Errorf("make a folder for a trial of real nodes: %w", err)
	}
	config := Config{Name: trialNode, Nodes: 1, Plan: NewPlan(0), Dir: scratch, Machine: machine, Cgroup: CgroupName(), Trial: true}
	defer func() { err = errors.Join(err, config.removeTrial()) }()
	if err := config.Write(trialNode); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	command := exec.CommandContext(ctx, machine.Executable, "node-"+trialNode, File(scratch, trialNode))
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: Isolation, Pdeathsig: syscall.SIGKILL}
	// When the thread that has started the node ends, the kernel ends the node.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("a trial of a real node failed: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (c Config) removeTrial() error {
	if err := removeCgroups(c.Cgroup); err != nil {
		return err
	}
	mounts, err := MountsBelow(c.Dir)
	if err == nil && len(mounts) > 0 {
		err = errors.New(strings.Join(mounts, ", ") + " is mounted there")
	}
	if err == nil {
		err = os.RemoveAll(c.Dir)
	}
	if err != nil {
		return fmt.Errorf("remove what a trial of real nodes has made in %s: %w", c.Dir, err)
	}
	return nil
}

// runTrial uses the same features of the kernel as the programs of a node. It makes a bridge and a link to the bridge, and runs a container with
// limits and with forbidden system calls.
func runTrial() error {
	own, err := namespace("self/ns/net")
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }()
	here, err := linksOf(own)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		here.bridge,
		func() error { return here.pair(nodeLink, peer(0), own) },
		func() error { return here.join(peer(0)) },
		func() error { return here.up(nodeLink, netip.PrefixFrom(NewPlan(0).Node(0), 24)) },
		forwarding,
		runContainer,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// runContainer runs busybox in a read-only container.
func runContainer() error {
	const bundle = "/var/lib/check"
	spec, err := json.Marshal(trialSpec())
	if err != nil {
		return fmt.Errorf("describe a container: %w", err)
	}
	busybox, err := os.ReadFile(filepath.Join(programDir, "busybox"))
	if err != nil {
		return fmt.Errorf("make a container: %w", err)
	}
	for _, name := range []string{"proc", "dev"} {
		if err := os.MkdirAll(filepath.Join(bundle, "rootfs", name), 0o755); err != nil {
			return fmt.Errorf("make a container: %w", err)
		}
	}
	for name, data := range map[string][]byte{"config.json": spec, "rootfs/busybox": busybox} {
		if err := os.WriteFile(filepath.Join(bundle, name), data, 0o755); err != nil {
			return fmt.Errorf("make a container: %w", err)
		}
	}
	out, err := exec.Command(filepath.Join(programDir, "runc"), "--root=/run/runc", "run", "--bundle="+bundle, trialNode).CombinedOutput()
	if err != nil {
		return fmt.Errorf("runc can't run a container: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// trialSpec describes a container (OCI runtime specification).
func trialSpec() map[string]any {
	namespaces := []map[string]string{}
	for _, kind := range []string{"pid", "mount", "network", "ipc", "uts"} {
		namespaces = append(namespaces, map[string]string{"type": kind})
	}
	return map[string]any{
		"ociVersion": "1.0.2",
		"process":    map[string]any{"args": []string{"/busybox", "true"}, "cwd": "/", "noNewPrivileges": true, "user": map[string]int{"uid": 1, "gid": 1}},
		"root":       map[string]any{"path": "rootfs", "readonly": true},
		"mounts": []map[string]any{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755", "size=64k"}},
		},
		"linux": map[string]any{
			"namespaces":  namespaces,
			"cgroupsPath": "/" + trialNode,
			"resources": map[string]any{
				"memory": map[string]int{"limit": trialMemory}, "cpu": map[string]int{"shares": 512}, "pids": map[string]int{"limit": 32},
			},
			"seccomp": map[string]any{
				"defaultAction": "SCMP_ACT_ALLOW",
				"syscalls":      []map[string]any{{"names": []string{"kexec_load"}, "action": "SCMP_ACT_ERRNO"}},
			},
		},
	}
}
