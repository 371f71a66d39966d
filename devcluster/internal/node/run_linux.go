package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

const (
	// Isolation has the namespaces that a node's process gets.
	Isolation = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	// NetworkIsolation has the namespace that the network's process gets.
	NetworkIsolation = unix.CLONE_NEWNET

	// inside is the argument with which a node's process runs again after it has entered its own root. A node of a trial gets argument trial instead.
	inside = "inside"
	trial  = "trial"
	// networkLimit limits how long a node waits for the network.
	networkLimit = 20 * time.Second
	// dialLimit limits how long a connection to this machine may take.
	dialLimit = 5 * time.Second
	// runtimeLimit limits how long containerd may take to start.
	runtimeLimit = 30 * time.Second
	// pause is the time after which an ended program of a node starts again.
	pause  = time.Second
	socket = "/run/containerd/containerd.sock"
)

// Run runs a node with a kubelet. First, it makes what isolates the node. Then it runs the node's programs until SIGTERM.
//
//nolint:cyclop // Each step can fail, and none branches.
func Run(name string, args []string) error {
	if len(args) == 1 && (args[0] == inside || args[0] == trial) {
		return map[string]func() error{inside: runInside, trial: runTrial}[args[0]]()
	}
	if len(args) != 1 {
		return errors.New("a node has one argument: the file with its configuration")
	}
	config, err := readConfig(args[0])
	if err != nil {
		return err
	}
	if err := isolated(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(config.Dir, "logs", config.Name), 0o700); err != nil {
		return fmt.Errorf("make the folder of the node's logs: %w", err)
	}
	network := netns.None()
	if !config.Trial {
		if network, err = findNetwork(config.Dir, networkLimit); err != nil {
			return err
		}
	}
	if err := ownMounts(); err != nil {
		return err
	}
	// When a kubelet starts, it spends 3 s on each cgroup that remains from an earlier container. So remove these cgroups.
	cgroup := config.Cgroup + "/" + config.Name
	if err := removeCgroups(cgroup); err != nil {
		return err
	}
	if err := joinCgroups(cgroup); err != nil {
		return err
	}
	if !config.Trial {
		if err := joinNetwork(config, network); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte(config.Name)); err != nil {
		return fmt.Errorf("name the node: %w", err)
	}
	// Keep this thread, because a cgroup namespace belongs to a thread. After exec, this thread is the whole process.
	runtime.LockOSThread()
	if err := ownCgroups(cgroup); err != nil {
		return err
	}
	if err := enterRoot(config); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the supervisor: %w", err)
	}
	executable, next := filepath.Join(programDir, "devcluster"), inside
	if config.Trial {
		next = trial
	}
	err = unix.Exec(executable, []string{executable, name, next}, environment())
	return fmt.Errorf("restart in the node's root: %w", err)
}

// isolated returns an error if this process has no namespaces of its own. Without these, the next steps would damage the machine.
func isolated() error {
	parent := ""
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if pid, found := strings.CutPrefix(line, "PPid:"); found {
			parent = strings.TrimSpace(pid)
		}
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	other, otherErr := os.Readlink(filepath.Join("/proc", parent, "ns/mnt"))
	if os.Getpid() != 1 || err != nil || otherErr != nil || own == other {
		return errors.New("a node runs only in namespaces of its own: start it with devcluster up --real-nodes")
	}
	return nil
}

func environment() []string {
	path := strings.Join([]string{
		filepath.Join(programDir, "node"), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
		filepath.Join(programDir, "firewall"),
	}, ":")
	all := []string{"PATH=" + path, "HOME=/root", "NO_PROXY=*"}
	for _, variable := range []string{"GOGC", "GOMAXPROCS"} {
		if value := os.Getenv(variable); value != "" { //nolint:forbidigo // As Go reads it.
			all = append(all, variable+"="+value)
		}
	}
	return all
}

// ownMounts hides the mounts of this process from other processes. It also mounts a /proc for this process' PID namespace.
func ownMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts apart from this machine's: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("mount the node's /proc: %w", err)
	}
	return nil
}

// joinNetwork makes the link between the node and the bridge of the network.
func joinNetwork(c Config, far netns.NsHandle) error {
	near, err := namespace("self/ns/net")
	if err != nil {
		return err
	}
	defer func() { _ = near.Close() }()
	here, err := linksOf(near)
	if err != nil {
		return err
	}
	there, err := linksOf(far)
	if err != nil {
		return err
	}
	address := netip.PrefixFrom(c.Plan.Node(c.Index), c.Plan.nodes().Bits())
	for _, step := range []func() error{
		// Remove the interface of the node's previous process first, because the kernel may not have removed it yet.
		func() error { return there.remove(peer(c.Index)) },
		func() error { return here.pair(nodeLink, peer(c.Index), far) },
		func() error { return there.join(peer(c.Index)) },
		func() error { return here.up("lo", netip.Prefix{}) },
		func() error { return here.up(nodeLink, address) },
		func() error { return here.routes(nodeLink, c, c.Index) },
		func() error { return here.routeServices(nodeLink) },
		forwarding,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// forwarding enables IP forwarding. It also makes packets between pods pass through iptables. Both settings apply only to this network namespace.
func forwarding() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let packets pass through the node: %w", err)
	}
	// Ignore the error. If the kernel does not have module br_netfilter, the file does not exist.
	_ = os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0o644)
	return nil
}

// runInside runs the node's programs. This process has PID 1 in its PID namespace. When it ends, the kernel kills all other processes in the
// namespace.
func runInside() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go reap()
	group := supervise.NewGroup(supervise.Options{Executable: filepath.Join(programDir, "devcluster"), Dir: "/", Logs: logsDir, Env: environment()})
	for _, process := range processes() {
		if process.Name == "kubelet" {
			// The kubelet needs containerd and the pause image, so prepare both first.
			if err := prepareRuntime(ctx); err != nil {
				return err
			}
		}
		if err := group.Start(process); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case exit := <-group.Exits():
			fmt.Fprintf(os.Stderr, "%s ended: %s\n", exit.Name, exit.Exit)
			time.AfterFunc(pause, func() {
				if err := group.Restart(exit.Name); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			})
		}
	}
}

// processes returns the programs of a node, in the order in which they start.
func processes() []supervise.Process {
	hostname, _ := os.Hostname()
	address, _ := os.ReadFile(filepath.Join(etcDir, "address"))
	return []supervise.Process{
		{Name: "containerd", Executable: filepath.Join(programDir, "node", "containerd"), Args: []string{"--config=" + etcDir + "/containerd.toml"}},
		{Name: "kube-proxy", Args: []string{"kube-proxy", "--config=" + etcDir + "/kube-proxy.yaml"}},
		{Name: "kubelet", Args: []string{
			"kubelet", "--config=" + etcDir + "/kubelet.yaml", "--kubeconfig=" + etcDir + "/kubelet.kubeconfig",
			"--hostname-override=" + hostname, "--node-ip=" + strings.TrimSpace(string(address)),
		}},
	}
}

// prepareRuntime waits until containerd answers, and imports devcluster's own images.
func prepareRuntime(ctx context.Context) error {
	err := wait(runtimeLimit, func() bool {
		connection, err := net.DialTimeout("unix", socket, dialLimit)
		return err == nil && connection.Close() == nil
	})
	if err != nil {
		return fmt.Errorf("wait for containerd, whose log on the node is %s: %w", filepath.Join(logsDir, "containerd.log"), err)
	}
	archive := "/run/devcluster-images.tar"
	if err := writeImages(archive); err != nil {
		return err
	}
	return ctr{program: filepath.Join(programDir, "node", "ctr"), socket: socket}.images(ctx, nil, "import", archive)
}

// reap waits for processes that outlive their parent and then end. The kernel makes this process their parent, because it has PID 1. reap skips
// processes in this program's own process group, because the code that starts such a process also waits for it.
func reap() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	own := syscall.Getpgrp()
	for range signals {
		entries, _ := os.ReadDir("/proc")
		for _, entry := range entries {
			if pid, err := strconv.Atoi(entry.Name()); err == nil && abandoned(pid, own) {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
}

// abandoned reports whether a process is a child of this process, has ended, and is in another process group.
func abandoned(pid, group int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	words := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	return len(words) > 2 && words[0] == "Z" && words[1] == "1" && words[2] != strconv.Itoa(group)
}

func wait(limit time.Duration, done func() bool) error {
	for end := time.Now().Add(limit); !done(); time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // It waits for done.
		if time.Now().After(end) {
			return fmt.Errorf("still missing after %s", limit)
		}
	}
	return nil
}
