package supervise

import (
	"bytes"
	"fmt"
	"os"
)

// Is reports whether the process is alive, and is the child with this name. The name is the first argument of the child. The process ID alone proves
// nothing, because another process may have this ID by now.
func Is(pid int, name string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	args := bytes.Split(line, []byte{0})
	return len(args) > 1 && string(args[1]) == name
}
