package mounts

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Presence says whether a pod has processes on the node.
type Presence int

// The values of Presence.
const (
	Unknown Presence = iota
	Present
	Absent
)

// podOfCgroup returns the UID of the pod in a path of a cgroup, or "". The systemd driver of the kubelet writes the UID with underscores.
func podOfCgroup(text string) string {
	found := regexp.MustCompile(`pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(\.slice)?/`).
		FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return strings.ReplaceAll(found[1], "_", "-")
}

// podCgroup returns the folder of a pod's cgroup, or "" if the pod has none. The kubelet's two cgroup drivers create the cgroups of pods in different
// places (kubernetes v1.36.3, pkg/kubelet/cm/cgroup_manager_linux.go ToSystemd and ToCgroupfs). Result "known" is false if neither place has cgroups
// v2.
func podCgroup(cgroups fs.FS, pod string) (folder string, known bool) {
	systemd := "pod" + strings.ReplaceAll(pod, "-", "_") + ".slice"
	for root, folders := range map[string][]string{
		"kubepods.slice": {"kubepods-" + systemd, "kubepods-burstable.slice/kubepods-burstable-" + systemd,
			"kubepods-besteffort.slice/kubepods-besteffort-" + systemd},
		"kubepods": {"pod" + pod, "burstable/pod" + pod, "besteffort/pod" + pod},
	} {
		if _, err := fs.Stat(cgroups, path.Join(root, "cgroup.events")); err != nil {
			continue
		}
		known = true
		for _, folder := range folders {
			if _, err := fs.Stat(cgroups, path.Join(root, folder, "cgroup.events")); err == nil {
				return path.Join(root, folder), true
			}
		}
	}
	return "", known
}

// podPresence says whether a process of a pod lives. The sandbox of a pod lives as long as the pod runs.
func podPresence(cgroups fs.FS, pod string) Presence {
	folder, known := podCgroup(cgroups, pod)
	if !known {
		return Unknown
	}
	if folder == "" {
		return Absent
	}
	populated, err := cgroupValue(cgroups, path.Join(folder, "cgroup.events"), "populated")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Absent
	case err != nil:
		return Unknown
	case populated == 0:
		return Absent
	}
	return Present
}

// oomKills returns how many processes of a pod the kernel killed because a cgroup of the pod had no memory left. The file memory.events of the pod's
// cgroup also counts the kills in its containers (Linux v6.1, Documentation/admin-guide/cgroup-v2.rst memory.events).
func oomKills(cgroups fs.FS, pod string) (uint64, bool) {
	folder, _ := podCgroup(cgroups, pod)
	if folder == "" {
		return 0, false
	}
	kills, err := cgroupValue(cgroups, path.Join(folder, "memory.events"), "oom_kill")
	return kills, err == nil
}

// cgroupValue returns the number that follows a name in a file. Each line of the file has one name and one number.
func cgroupValue(cgroups fs.FS, file, name string) (uint64, error) {
	text, err := readLimited(cgroups, file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			return strconv.ParseUint(fields[1], 10, 64) //nolint:wrapcheck // The callers need only whether there is a number.
		}
	}
	return 0, fs.ErrInvalid
}
