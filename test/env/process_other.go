//go:build !linux

package env

import "os/exec"

// DieWithParent can do nothing here: only Linux tells a child of its parent's death.
func DieWithParent(*exec.Cmd) {}
