package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// bridge is the interface that connects the nodes. It is in the network namespace of component Network. uplink is the interface that connects that
	// namespace to the machine.
	bridge = "nodes"
	uplink = "machine"
	// nodeLink is the interface in a node's own namespace.
	nodeLink = "eth0"
)

// peer returns the name of the interface at the other end of a node's link, on the side of the bridge.
func peer(index int) string { return fmt.Sprintf("node%d", index) }

// namespace opens a network namespace. Argument "place" is a path below /proc. The kernel keeps a namespace as long as a process is in the namespace,
// or has the namespace open.
func namespace(place string) (netns.NsHandle, error) {
	handle, err := netns.GetFromPath(filepath.Join("/proc", place))
	if err != nil {
		return handle, fmt.Errorf("open the network namespace /proc/%s: %w", place, err)
	}
	return handle, nil
}

// links configures the interfaces of one network namespace.
type links struct{ handle *netlink.Handle }

func linksOf(ns netns.NsHandle) (links, error) {
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		return links{}, fmt.Errorf("configure a network namespace: %w", err)
	}
	return links{handle}, nil
}

func (l links) find(name string) (netlink.Link, error) {
	link, err := l.handle.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", name, err)
	}
	return link, nil
}

// up sets an interface up. If an address is given, the interface gets this address.
func (l links) up(name string, address netip.Prefix) error {
	link, err := l.find(name)
	if err != nil {
		return err
	}
	if address.IsValid() {
		if err := l.handle.AddrAdd(link, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
			return fmt.Errorf("give interface %s the address %s: %w", name, address, err)
		}
	}
	if err := l.handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up interface %s: %w", name, err)
	}
	return nil
}

// join attaches an interface to the bridge, and sets the interface up.
func (l links) join(name string) error {
	link, err := l.find(name)
	if err != nil {
		return err
	}
	master, err := l.find(bridge)
	if err != nil {
		return err
	}
	if err := l.handle.LinkSetMaster(link, master); err != nil {
		return fmt.Errorf("join interface %s to the bridge: %w", name, err)
	}
	return l.up(name, netip.Prefix{})
}

// remove removes an interface and its peer. If the interface does not exist, this is no error.
func (l links) remove(name string) error {
	link, err := l.handle.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = l.handle.LinkDel(link)
	}
	// The kernel may have removed the interface already, together with the network namespace of the interface's peer.
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove interface %s: %w", name, err)
	}
	return nil
}

// own marks an interface with the cgroup of its cluster. The name alone does not identify the interface, because an interface of a later cluster can
// get the same name.
func (l links) own(name, cgroup string) error {
	link, err := l.find(name)
	if err != nil {
		return err
	}
	if err := l.handle.LinkSetAlias(link, cgroup); err != nil {
		return fmt.Errorf("mark interface %s: %w", name, err)
	}
	return nil
}

// removeOwned removes an interface if it has the mark of the cluster with this cgroup.
func (l links) removeOwned(name, cgroup string) error {
	link, err := l.handle.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) || err == nil && link.Attrs().Alias != cgroup {
		return nil
	}
	return l.remove(name)
}

// routes adds routes to the pods of all other nodes.
func (l links) routes(name string, c Config, except int) error {
	link, err := l.find(name)
	if err != nil {
		return err
	}
	for i := range c.Nodes {
		if i == except {
			continue
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(c.Plan.Pods(i)), Gw: c.Plan.Node(i).AsSlice()}
		if err := l.handle.RouteReplace(route); err != nil {
			return fmt.Errorf("route to the pods of node %d: %w", i, err)
		}
	}
	return nil
}

// routeServices adds a route to the network of all Services, so that programs in the node's own network namespace can connect to Services. Without a
// route, the kernel would refuse the connection before the rules of kube-proxy choose an endpoint.
func (l links) routeServices(name string) error {
	link, err := l.find(name)
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(netip.MustParsePrefix(ServiceNetwork)), Scope: netlink.SCOPE_LINK}
	if err := l.handle.RouteReplace(route); err != nil {
		return fmt.Errorf("route to Services by interface %s: %w", name, err)
	}
	return nil
}

// pair makes a veth pair. One interface is in this namespace, and its peer is in another namespace.
func (l links) pair(name, other string, ns netns.NsHandle) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	err := l.handle.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: other, PeerNamespace: netlink.NsFd(ns)})
	if err != nil {
		return fmt.Errorf("make interfaces %s and %s: %w", name, other, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// FindPlan chooses a plan with addresses that this machine does not use, and claims the plan. The claim lasts as long as a process has the
// returned file open.
func FindPlan() (Plan, *os.File, error) {
	for i := range plans {
		p := NewPlan(os.Getpid() + i)
		claimed, err := p.claim()
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			return Plan{}, nil, err
		}
		// Check the addresses only after the claim. The previous cluster with this plan may have ended a moment ago, and its addresses may still exist.
		addresses, err := net.InterfaceAddrs()
		if err == nil && !uses(addresses, p.Block) {
			return p, claimed, nil
		}
		_ = claimed.Close()
		if err != nil {
			return Plan{}, nil, fmt.Errorf("list this machine's addresses: %w", err)
		}
	}
	return Plan{}, nil, errors.New("all networks for real nodes are in use: end another devcluster with \"devcluster down\"")
}

// claim claims a plan. To do this, it binds a socket to the plan's name, in the network namespace of this machine. If several clusters start
// together, only one of them gets the name. The name leaves nothing in the file system. The kernel frees the name when the last process with the
// socket exits.
func (p Plan) claim() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("claim the network %s: %w", p.Block, err)
	}
	claimed := os.NewFile(uintptr(fd), p.Link)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + p.Link}); err != nil {
		return nil, fmt.Errorf("claim the network %s: %w", p.Block, errors.Join(err, claimed.Close()))
	}
	return claimed, nil
}

func uses(addresses []net.Addr, block netip.Prefix) bool {
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && block.Overlaps(prefix.Masked()) {
			return true
		}
	}
	return false
}

// Sweep removes what a cluster's nodes with a kubelet left behind on this machine when their processes ended. It also removes the cgroups of killed
// clusters.
func Sweep(cgroup string, plan *Plan) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var failed []error
	if plan != nil && strings.HasPrefix(plan.Link, linkPrefix) {
		// The kernel also removes this interface, but only some time after the last process of its network namespace has ended.
		failed = append(failed, links{&netlink.Handle{}}.removeOwned(plan.Link, cgroup))
	}
	if strings.HasPrefix(cgroup, cgroupPrefix) {
		failed = append(failed, removeCgroups(cgroup))
	}
	if err := sweepCgroups(); err != nil {
		// Only print this error, because it concerns other clusters. The end of this cluster must not fail.
		fmt.Fprintln(os.Stderr, "clean up after a cluster that was killed:", err)
	}
	return errors.Join(failed...)
}

// machineThread is a thread in this machine's network namespace, while the process is in another network namespace. The thread runs functions, one at
// a time.
type machineThread chan func()

func newMachineThread(ns netns.NsHandle) (machineThread, error) {
	thread, entered := make(machineThread), make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Setns(int(ns), unix.CLONE_NEWNET)
		entered <- err
		if err != nil {
			return
		}
		for run := range thread {
			run()
		}
	}()
	if err := <-entered; err != nil {
		return nil, fmt.Errorf("enter this machine's network: %w", err)
	}
	return thread, nil
}

// dial connects to an address of this machine. It uses the thread, because a socket belongs to the network namespace in which it was created.
func (m machineThread) dial(address string) (net.Conn, error) {
	type result struct {
		connection net.Conn
		err        error
	}
	done := make(chan result)
	m <- func() {
		connection, err := (&net.Dialer{FallbackDelay: -1, Timeout: dialLimit}).Dial("tcp", address)
		done <- result{connection, err}
	}
	r := <-done
	return r.connection, r.err
}

func (l links) bridge() error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = bridge
	if err := l.handle.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
		return fmt.Errorf("make the bridge of the nodes: %w", err)
	}
	return nil
}
