//go:build !linux

package env

import "os/exec"

// dieWithParent can do nothing here: only Linux tells a child of its parent's death.
func dieWithParent(*exec.Cmd) {}
