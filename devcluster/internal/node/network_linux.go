package node

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/vishvananda/netns"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"k8s.io/klog/v2/textlogger"
)

// networkFile returns the path of a file. The file says where nodes can open the network namespace of component Network.
func networkFile(dir string) string { return filepath.Join(dir, "nodes", "network") }

// place says where a process can open a network namespace.
type place struct {
	// PID and Started identify the process that holds the namespace open. The PID alone is not enough, because another process may have this PID by now.
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`
	FD      int    `json:"fd"`
}

// tell writes networkFile into the cluster's directory. The file tells the nodes where they can open the cluster's network namespace.
func tell(dir string, ns netns.NsHandle) error {
	// /proc/PID/ns/net is the namespace of the process' first thread, and machineThread may have put this thread into the machine's namespace. So the
	// file names an open file descriptor, which always refers to the right namespace.
	data, err := json.Marshal(place{PID: os.Getpid(), Started: startTime(os.Getpid()), FD: int(ns)})
	if err != nil {
		return fmt.Errorf("network: tell the nodes where the network namespace is: %w", err)
	}
	if err := replaceFile(networkFile(dir), data); err != nil {
		return fmt.Errorf("network: tell the nodes where the network namespace is: %w", err)
	}
	return nil
}

// findNetwork opens the network namespace that the process of component Network holds open. It waits until that process runs. The existence of the
// file proves nothing, because an ended process may have written the file.
func findNetwork(dir string, limit time.Duration) (netns.NsHandle, error) {
	found := netns.None()
	err := wait(limit, func() bool {
		var at place
		data, err := os.ReadFile(networkFile(dir))
		if err != nil || json.Unmarshal(data, &at) != nil {
			return false
		}
		handle, err := namespace(fmt.Sprintf("%d/fd/%d", at.PID, at.FD))
		if err != nil {
			return false
		}
		// Check the process only after the opening. If the same process still has this PID, the opened namespace is the right namespace.
		if startTime(at.PID) != at.Started {
			_ = handle.Close()
			return false
		}
		found = handle
		return true
	})
	if err != nil {
		return found, fmt.Errorf("wait for the network of the nodes: %w", err)
	}
	return found, nil
}

// hostsFile returns the path of a file with lines "address name". The DNS answers for these names, in addition to the names of Services. The DNS
// reads the file again for each question.
func hostsFile(dir string) string { return filepath.Join(dir, "nodes", "hosts") }

// RunNetwork connects the nodes that run a kubelet to each other and to this machine, until the context ends. The network namespace of this process
// has only a bridge. The API server and the DNS are reachable on this bridge.
func RunNetwork(ctx context.Context, args []string) error {
	var file, kubeconfig string
	flags := flag.NewFlagSet("network", flag.ContinueOnError)
	flags.StringVar(&file, "config", "", "file that says what nodes there are")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "file that says how to reach the API server on this machine")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("network: read the flags: %w", err)
	}
	config, err := readConfig(file)
	if err != nil {
		return err
	}
	machine, err := namespace(strconv.Itoa(os.Getppid()) + "/ns/net")
	if err != nil {
		return err
	}
	own, err := namespace("self/ns/net")
	if err != nil {
		return err
	}
	if err := connect(config, own, machine); err != nil {
		return err
	}
	thread, err := newMachineThread(machine)
	if err != nil {
		return err
	}
	return serveNetwork(ctx, config, kubeconfig, thread, func() error {
		return tell(config.Dir, own)
	})
}

func serveNetwork(ctx context.Context, config Config, kubeconfig string, thread machineThread, ready func() error) error {
	ctrl.SetLogger(textlogger.NewLogger(textlogger.NewConfig()))
	client, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("network: read the kubeconfig: %w", err)
	}
	server, err := url.Parse(client.Host)
	if err != nil {
		return fmt.Errorf("network: read the API server's URL: %w", err)
	}
	address := server.Host
	client.Dial = func(context.Context, string, string) (net.Conn, error) { return thread.dial(address) }
	known, err := cache.New(client, cache.Options{Scheme: scheme.Scheme}) //nolint:forbidigo // No manager runs it.
	if err != nil {
		return fmt.Errorf("network: make a client: %w", err)
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(config.Plan.API, APIPort).String())
	if err != nil {
		return fmt.Errorf("network: listen for the API server: %w", err)
	}
	failed := make(chan error, 3)
	go func() { failed <- known.Start(ctx) }()
	go func() { failed <- forward(listener, func() (net.Conn, error) { return thread.dial(address) }) }()
	names := &dns{cluster: known, address: netip.AddrPortFrom(config.Plan.API, 53).String(), hosts: hostsFile(config.Dir)}
	go func() { failed <- names.serve(ctx) }()
	// Write this file last, because the nodes wait for it.
	if err := ready(); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// connect makes the bridge, and a link between the bridge and this machine.
func connect(c Config, own, machine netns.NsHandle) error {
	if own.Equal(machine) {
		return errors.New("network: this program needs its own network namespace, but runs in the machine's namespace")
	}
	here, err := linksOf(own)
	if err != nil {
		return err
	}
	there, err := linksOf(machine)
	if err != nil {
		return err
	}
	if err := here.bridge(); err != nil {
		return err
	}
	if err := here.pair(uplink, c.Plan.Link, machine); err != nil {
		return err
	}
	address := func(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, c.Plan.nodes().Bits()) }
	const nothing = -1
	for _, step := range []func() error{
		func() error { return here.up("lo", netip.Prefix{}) },
		func() error { return here.up(bridge, address(c.Plan.API)) },
		func() error { return here.join(uplink) },
		func() error { return here.routes(bridge, c, nothing) },
		func() error { return there.own(c.Plan.Link, c.Cgroup) },
		func() error { return there.up(c.Plan.Link, address(c.Plan.Host)) },
		func() error { return there.routes(c.Plan.Link, c, nothing) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// forward accepts connections from the listener. For each accepted connection, it makes another connection with dial, and copies data between the two
// connections.
func forward(listener net.Listener, dial func() (net.Conn, error)) error {
	for {
		client, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("network: accept a connection: %w", err)
		}
		go func() {
			defer func() { _ = client.Close() }()
			server, err := dial()
			if err != nil {
				return
			}
			defer func() { _ = server.Close() }()
			go func() {
				_, _ = io.Copy(server, client)
				_ = server.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(client, server)
		}()
	}
}
