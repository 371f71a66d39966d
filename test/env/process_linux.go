package env

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the process when the test dies without ending it.
func dieWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
