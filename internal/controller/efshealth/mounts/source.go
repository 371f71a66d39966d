package mounts

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"time"
)

// Source has the folders of the node that Read needs. Proc is the node's procfs, States is /var/run/efs, and Cgroups is /sys/fs/cgroup.
type Source struct {
	Proc, States, Cgroups fs.FS
}

// Reading is what one look at the node found.
type Reading struct {
	Time   time.Time
	Mounts []Mount
	// Stats are by the path of the mount.
	Stats map[string]Stats
	// States are by port.
	States map[int]State
	// Tunnels are by port.
	Tunnels map[int]Process
	// Pods says for each pod with a mount whether the pod has processes. The key is the UID of the pod.
	Pods map[string]Presence
	// Kills has, for each pod with a tunnel, the number of its processes that the kernel killed for lack of memory. The key is the UID of the pod.
	Kills map[string]uint64
}

// Read reads the node. It reads the mounts in the kubelet's mount namespace, because OpenShift can give the kubelet another mount namespace than
// process 1.
func (s Source) Read(now time.Time) (Reading, error) {
	processes, err := ReadProcesses(s.Proc)
	if err != nil {
		return Reading{}, err
	}
	reading := Reading{Time: now, Tunnels: processes.Tunnels, Pods: map[string]Presence{}, Kills: map[string]uint64{}}
	folder := strconv.Itoa(processes.Kubelet)
	if reading.Mounts, err = parse(s.Proc, path.Join(folder, "mountinfo"), ParseMounts); err != nil {
		return Reading{}, err
	}
	if reading.Stats, err = parse(s.Proc, path.Join(folder, "mountstats"), ParseStats); err != nil {
		return Reading{}, err
	}
	if reading.States, err = ReadStates(s.States); err != nil {
		return Reading{}, err
	}
	for _, mount := range reading.Mounts {
		if _, done := reading.Pods[mount.Pod]; !done {
			reading.Pods[mount.Pod] = podPresence(s.Cgroups, mount.Pod)
		}
	}
	for _, tunnel := range reading.Tunnels {
		if _, done := reading.Kills[tunnel.Pod]; done || tunnel.Pod == "" {
			continue
		}
		if kills, known := oomKills(s.Cgroups, tunnel.Pod); known {
			reading.Kills[tunnel.Pod] = kills
		}
	}
	return reading, nil
}

func parse[T any](folder fs.FS, name string, parser func(r io.Reader) (T, error)) (T, error) {
	file, err := folder.Open(name)
	if err != nil {
		var none T
		return none, fmt.Errorf("open %s: %w", name, err)
	}
	defer file.Close() //nolint:errcheck // It is only read.
	return parser(file)
}
