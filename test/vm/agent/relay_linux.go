package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// relay is a tunnel as efs-proxy is one: it listens here, and dials in the network namespace of another process, which has the server.
func relay(listen, pid, dial string) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	there, err := os.Open("/proc/" + pid + "/ns/net")
	if err != nil {
		return err
	}
	// A thread makes its sockets in the namespace that it is in. All others stay here.
	runtime.LockOSThread()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network of process %s: %w", pid, err)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		server, err := net.Dial("tcp", dial)
		if err != nil {
			// As efs-proxy does, it drops a connection that it can't pass on (efs-utils, src/proxy/src/controller.rs).
			_ = client.Close()
			continue
		}
		for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				_ = client.Close()
				_ = server.Close()
			}()
		}
	}
}
