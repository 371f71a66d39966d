// Command agent is the first process of a virtual machine, and does what the test outside tells it. Under the name
// efs-proxy it is a tunnel: "efs-proxy LISTEN PID DIAL CONFIG".
package main

import (
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/csi-operators/csi-operators/test/vm/machine"
)

func main() {
	run := first
	// The fourth argument is the name by which a tunnel is known on a node.
	if filepath.Base(os.Args[0]) == "efs-proxy" && len(os.Args) == 5 {
		run = func() error { return relay(os.Args[1], os.Args[2], os.Args[3]) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// first is the whole life of the virtual machine: when it returns, the kernel panics, and QEMU ends.
func first() error {
	if os.Getpid() != 1 {
		return errors.New("this is the first process of a virtual machine, and of nothing else")
	}
	ports, err := filepath.Glob("/dev/vport*p*")
	if err != nil || len(ports) != 1 {
		return fmt.Errorf("the ports to the test outside are %q, want one (%w)", ports, err)
	}
	port, err := os.OpenFile(ports[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	server := rpc.NewServer()
	if err := server.Register(&Machine{}); err != nil {
		return err
	}
	server.ServeConn(port)
	return errors.New("the test outside has closed the connection")
}

// Machine is what the test outside calls.
type Machine struct{}

// Run runs a program, and waits for its end unless it runs beside the test.
func (*Machine) Run(wanted machine.Command, result *machine.Result) error {
	command := exec.Command(wanted.Args[0], wanted.Args[1:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if wanted.Namespaces {
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS
	}
	if wanted.Beside {
		console, err := os.OpenFile("/dev/console", os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer console.Close()
		command.Stdout, command.Stderr = console, console
		if err := command.Start(); err != nil {
			return err
		}
		result.PID = command.Process.Pid
		// Nobody asks how it ended, but no zombie stays.
		go func() { _ = command.Wait() }()
		return nil
	}
	output, err := command.Output()
	result.Output = output
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%q: %w: %s%s", wanted.Args, err, output, failed.Stderr)
	}
	return err
}
