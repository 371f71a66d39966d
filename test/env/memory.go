package env

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Resident is the resident memory of a process in MiB. It is unknown where the system has no /proc.
func Resident(pid int) (mebibytes int, known bool, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		var kibibytes int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kibibytes); err == nil {
			return kibibytes / 1024, true, nil
		}
	}
	return 0, false, fmt.Errorf("process %d has no VmRSS", pid)
}
