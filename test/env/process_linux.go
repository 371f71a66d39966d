package env

import (
	"os/exec"
	"syscall"
)

// DieWithParent ends the process when the test dies without ending it.
func DieWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// OwnGroup starts the process, which dies with the test, in a group of its own. So Ctrl-C in a terminal does not reach the process.
func OwnGroup(command *exec.Cmd) {
	DieWithParent(command)
	command.SysProcAttr.Setpgid = true
}

// SignalGroup sends a signal to all processes of the group of a command that OwnGroup has prepared.
func SignalGroup(command *exec.Cmd, signal syscall.Signal) error {
	return syscall.Kill(-command.Process.Pid, signal)
}
