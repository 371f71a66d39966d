//go:build !linux

package supervise

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Is reports whether the process is alive and is the child of that name, which is one of its arguments. A process ID
// alone proves nothing: it may have been given to another process since.
func Is(pid int, name string) bool {
	line, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && slices.Contains(strings.Fields(string(line)), name)
}
