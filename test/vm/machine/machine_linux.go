// Package machine boots a virtual machine with Debian's kernel and NFS: client and server. Its first process is test/vm/agent.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Command is a program to run in the virtual machine.
type Command struct {
	Args []string
	// Namespaces gives it a network, mounts and a host name of its own.
	Namespaces bool
	// Beside does not wait for its end.
	Beside bool
}

// Result is what a program has written, or, if it runs beside the test, its process.
type Result struct {
	Output []byte
	PID    int
}

// Machine is a virtual machine that runs.
type Machine struct {
	console string
	qemu    *exec.Cmd
	client  *rpc.Client
}

// Boot starts a virtual machine with an initramfs of Initramfs and a disk, whose files stay. It ends with this process at the latest.
func Boot(ctx context.Context, kernel, initramfs, disk, folder string) (*Machine, error) {
	socket := filepath.Join(folder, "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	m := &Machine{console: filepath.Join(folder, "console.log")}
	m.qemu = exec.Command("qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "1536", "-nodefaults", "-no-reboot", "-display", "none",
		"-kernel", kernel, "-initrd", initramfs, "-append", "console=ttyS0 panic=-1 quiet loglevel=5", "-serial", "file:"+m.console,
		"-drive", "if=virtio,format=raw,file="+disk, "-device", "virtio-serial-pci",
		"-chardev", "socket,id=agent,path="+socket, "-device", "virtserialport,chardev=agent")
	m.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	m.qemu.Stderr = os.Stderr
	if err := m.qemu.Start(); err != nil {
		return nil, err
	}
	connection, err := accept(listener)
	if err != nil {
		return nil, errors.Join(err, m.CutPower())
	}
	m.client = rpc.NewClient(connection)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if _, err := m.Run(ctx, "true"); err != nil {
		return nil, errors.Join(fmt.Errorf("the virtual machine does not answer: %w; its console: %s", err, m.Messages()), m.CutPower())
	}
	return m, nil
}

func accept(listener net.Listener) (io.ReadWriteCloser, error) {
	if err := listener.(*net.UnixListener).SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	return listener.Accept()
}

// Run runs a program in the virtual machine, and returns its output.
func (m *Machine) Run(ctx context.Context, args ...string) (string, error) {
	result, err := m.Do(ctx, Command{Args: args})
	return string(result.Output), err
}

// Do runs a program in the virtual machine.
func (m *Machine) Do(ctx context.Context, command Command) (Result, error) {
	var result Result
	call := m.client.Go("Machine.Run", command, &result, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return result, call.Error
	case <-ctx.Done():
		return Result{}, fmt.Errorf("%q in the virtual machine: %w", command.Args, ctx.Err())
	}
}

// CutPower ends the virtual machine as a power cut does: what it has not written to its disk is lost.
func (m *Machine) CutPower() error {
	if m.client != nil {
		_ = m.client.Close()
	}
	if err := m.qemu.Process.Kill(); err != nil {
		return err
	}
	_ = m.qemu.Wait()
	return nil
}

// Messages are what the kernel and the programs beside the test have said.
func (m *Machine) Messages() string {
	text, err := os.ReadFile(m.console)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
