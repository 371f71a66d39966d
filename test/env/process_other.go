//go:build !linux

package env

import (
	"os/exec"
	"syscall"
)

// DieWithParent can do nothing here: only Linux signals its parent's death to a child.
func DieWithParent(*exec.Cmd) {}

// OwnGroup can do nothing here.
func OwnGroup(*exec.Cmd) {}

// SignalGroup reaches the command only, and none of its children.
func SignalGroup(command *exec.Cmd, signal syscall.Signal) error {
	return command.Process.Signal(signal)
}
