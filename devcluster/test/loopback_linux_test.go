package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tcpListen is the state of a listening socket in the kernel's tables.
const tcpListen = "0A"

func nothingListensOutsideLoopback(t *testing.T, r *running) {
	state, _ := r.status()
	sockets := map[string]string{}
	for _, p := range state.Processes {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links {
			// A descriptor may have been closed since.
			if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, "socket:[") {
				sockets[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = p.Name
			}
		}
	}
	listening := 0
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(data), "\n") {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != tcpListen || sockets[fields[9]] == "" {
				continue
			}
			listening++
			// 127.0.0.1, as the kernel writes it on a little-endian machine.
			if !strings.HasPrefix(fields[1], "0100007F:") {
				t.Errorf("%s listens on %s", sockets[fields[9]], fields[1])
			}
		}
	}
	// Those of the API server and etcd's two.
	if listening != 3 {
		t.Errorf("got %d listening sockets, want 3", listening)
	}
}
