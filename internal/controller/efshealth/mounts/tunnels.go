package mounts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// largestState is the size of the largest state file that is read. A state file has a command and a few paths.
const largestState = 64 << 10

// State is what efs-utils wrote about a mount with a tunnel.
type State struct {
	// Port is the port of the tunnel. The name of the state file ends with this port.
	Port int
	// Unmounted means that efs-utils saw that the mount is gone, and ends the tunnel soon.
	Unmounted bool
}

// ReadStates reads the state files of efs-utils, by port. Their names are fs-<id>.<path with dots>.<port>, in all versions from 1.32.2 to 3.2.0
// (src/mount_efs/__init__.py, from 3.0.0 on src/efs_utils_common/proxy.py write_tunnel_state_file). While efs-utils writes a file, ReadStates may
// read only a part of the file. It then uses only the port from the name of the file.
func ReadStates(folder fs.FS) (map[int]State, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, fmt.Errorf("state files of efs-utils: %w", err)
	}
	states := map[int]State{}
	for _, entry := range entries {
		port := endingPort(entry.Name())
		if !entry.Type().IsRegular() || !strings.HasPrefix(entry.Name(), "fs-") || port == 0 {
			continue
		}
		var content struct {
			Unmounted *float64 `json:"unmount_time"`
		}
		if text, err := readLimited(folder, entry.Name()); err == nil && json.Unmarshal(text, &content) == nil {
			states[port] = State{Port: port, Unmounted: content.Unmounted != nil}
			continue
		}
		states[port] = State{Port: port}
	}
	return states, nil
}

// endingPort returns the port at the end of a file's name, or 0 if the name does not end with a port.
func endingPort(name string) int {
	port, err := strconv.ParseUint(name[strings.LastIndex(name, ".")+1:], 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

func readLimited(folder fs.FS, name string) ([]byte, error) {
	file, err := folder.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer file.Close() //nolint:errcheck // It is only read.
	// Most files are smaller than this buffer. The buffer can't have the size of the file, because procfs does not report the size.
	text := make([]byte, 0, 512)
	for len(text) < largestState {
		count, err := file.Read(text[len(text):cap(text)])
		text = text[:len(text)+count]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if len(text) == cap(text) {
			text = slices.Grow(text, len(text))
		}
	}
	return text, nil
}

// Process is a process of the node.
type Process struct {
	PID int
	// Start is the time at which the process started, in clock ticks since the start of the node. It tells two processes with the same PID apart.
	Start uint64
	// Pod is the UID of the pod whose container has the process, or "".
	Pod string
}

// Processes are the processes of a node that matter here.
type Processes struct {
	// Tunnels are the tunnels of mounts, by port.
	Tunnels map[int]Process
	// Kubelet is the PID of the kubelet, or 1.
	Kubelet int
}

// ReadProcesses finds the tunnels and the kubelet in a procfs. It skips a process that ends during the read.
func ReadProcesses(proc fs.FS) (Processes, error) {
	entries, err := fs.ReadDir(proc, ".")
	if err != nil {
		return Processes{}, fmt.Errorf("processes: %w", err)
	}
	found := Processes{Tunnels: map[int]Process{}, Kubelet: 1}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		name, err := readLimited(proc, entry.Name()+"/comm")
		if err != nil {
			continue
		}
		switch strings.TrimSpace(string(name)) {
		// The names of the programs that can be a tunnel (efs-utils v3.2.0, src/efs_utils_common/process_utils.py _efs_proxy_bin and _stunnel_bin).
		case "efs-proxy", "stunnel", "stunnel5":
			if port, process := readTunnel(proc, pid); port != 0 {
				found.Tunnels[port] = process
			}
		case "kubelet":
			// A program in a container can also have the name "kubelet". Such a program is no child of process 1, unless the container has the node's PID
			// namespace.
			if stat, ok := readStat(proc, pid); ok && stat.parent == 1 {
				found.Kubelet = pid
			}
		}
	}
	return found, nil
}

// readTunnel returns the port and the process of a tunnel. The port is 0 if the process is not a tunnel. The command of a tunnel has the tunnel's
// configuration file as argument: stunnel-config.<name of the state file> (efs-utils v3.2.0, src/efs_utils_common/proxy.py
// write_stunnel_config_file).
func readTunnel(proc fs.FS, pid int) (int, Process) {
	folder := strconv.Itoa(pid)
	stat, ok := readStat(proc, pid)
	command, err := readLimited(proc, path.Join(folder, "cmdline"))
	if err != nil || !ok || stat.dead {
		return 0, Process{}
	}
	for argument := range strings.SplitSeq(string(command), "\x00") {
		if name := path.Base(argument); strings.HasPrefix(name, "stunnel-config.fs-") {
			process := Process{PID: pid, Start: stat.start}
			if group, err := readLimited(proc, path.Join(folder, "cgroup")); err == nil {
				process.Pod = podOfCgroup(string(group))
			}
			return endingPort(name), process
		}
	}
	return 0, Process{}
}

type stat struct {
	parent int
	start  uint64
	dead   bool
}

// readStat reads the file stat of a process (proc(5)). The name of the program is in parentheses, and can have parentheses and spaces in it.
func readStat(proc fs.FS, pid int) (stat, bool) {
	text, err := readLimited(proc, path.Join(strconv.Itoa(pid), "stat"))
	if err != nil {
		return stat{}, false
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return stat{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, false
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return stat{}, false
	}
	return stat{parent: parent, start: start, dead: strings.Contains("ZXx", fields[0])}, true
}
