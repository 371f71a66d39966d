//go:build !linux

package supervise

import "syscall"

// attributes returns nothing, because only Linux can kill a child when its parent dies.
func attributes(Process) *syscall.SysProcAttr { return nil }
