//go:build !linux

package supervise

import "syscall"

// attributes has nothing to ask for: only Linux can tie a child's life to its parent's.
func attributes() *syscall.SysProcAttr { return nil }
