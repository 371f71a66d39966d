package supervise

import "syscall"

// attributes makes the kernel kill a child when its parent dies, so that nothing is left after a SIGKILL.
func attributes(process Process) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: process.Namespaces}
}
