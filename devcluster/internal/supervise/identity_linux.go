package supervise

import (
	"bytes"
	"fmt"
	"os"
)

// Is reports whether the process is alive and is the child of that name, which is its first argument. A process ID alone
// proves nothing: it may have been given to another process since.
func Is(pid int, name string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	args := bytes.Split(line, []byte{0})
	return len(args) > 1 && string(args[1]) == name
}
