//go:build !linux

package supervise

import "syscall"

// attributes is empty: only Linux can kill a child with its parent.
func attributes(Process) *syscall.SysProcAttr { return nil }
