package node

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// listenInside listens at registryAddress, in the network namespace of a process.
func listenInside(pid int) (net.Listener, error) {
	far, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = far.Close() }()
	own, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	defer func() { _ = own.Close() }()
	type answer struct {
		listener net.Listener
		err      error
	}
	answers := make(chan answer)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(far.Fd()), unix.CLONE_NEWNET); err != nil {
			answers <- answer{err: err}
			return
		}
		listener, err := net.Listen("tcp", registryAddress)
		// The thread must not end: children that it has started would end with it.
		if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
			answers <- answer{err: back}
			return
		}
		runtime.UnlockOSThread()
		answers <- answer{listener, err}
	}()
	got := <-answers
	return got.listener, got.err
}
