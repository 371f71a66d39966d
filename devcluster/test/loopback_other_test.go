//go:build !linux

package test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func nothingListensOutsideLoopback(t *testing.T, r *running) {
	state, _ := r.status()
	for _, p := range state.Processes {
		// It fails if the process listens nowhere.
		out, _ := exec.Command("lsof", "-nP", "-a", "-iTCP", "-sTCP:LISTEN", "-Fn", "-p", strconv.Itoa(p.PID)).Output()
		for _, line := range strings.Split(string(out), "\n") {
			if address, found := strings.CutPrefix(line, "n"); found && !strings.HasPrefix(address, "127.0.0.1:") {
				t.Errorf("%s listens on %s", p.Name, address)
			}
		}
	}
}
