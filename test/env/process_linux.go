package env

import (
	"os/exec"
	"syscall"
)

// DieWithParent ends the process when the test dies without ending it.
func DieWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
