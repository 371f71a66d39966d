//go:build !linux

package env

import "os/exec"

// DieWithParent can do nothing here: only Linux signals its parent's death to a child.
func DieWithParent(*exec.Cmd) {}

// OwnGroup can do nothing here.
func OwnGroup(*exec.Cmd) {}
