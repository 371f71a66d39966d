package supervise

import "syscall"

// attributes makes the kernel kill a child when the child's parent dies. So no child is left after a SIGKILL of the parent.
func attributes(process Process) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: process.Namespaces}
}
