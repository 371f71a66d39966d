//go:build !linux

package supervise

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Is reports whether the process is alive, and is the child with this name. The name is one of the arguments of the child. The process ID alone
// proves nothing, because another process may have this ID by now.
func Is(pid int, name string) bool {
	line, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && slices.Contains(strings.Fields(string(line)), name)
}
