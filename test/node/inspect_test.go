package node

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// process is a process of a container, as this machine sees it.
type process struct {
	pid int
	// status are the fields of /proc/PID/status.
	status map[string]string
}

// processes are those of all containers, by their IDs.
func processes() (map[string][]process, error) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	id := regexp.MustCompile(`[0-9a-f]{64}`)
	found := map[string][]process{}
	for _, entry := range entries {
		// Processes end while they are looked at.
		group, err := os.ReadFile(filepath.Join(entry, "cgroup"))
		if err != nil {
			continue
		}
		ids := id.FindAllString(string(group), -1)
		if len(ids) == 0 {
			continue
		}
		text, err := os.ReadFile(filepath.Join(entry, "status"))
		if err != nil {
			continue
		}
		one := process{status: map[string]string{}}
		one.pid, _ = strconv.Atoi(filepath.Base(entry))
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			one.status[name] = strings.TrimSpace(value)
		}
		container := ids[len(ids)-1]
		found[container] = append(found[container], one)
	}
	return found, nil
}

// inspect compares what the processes of a pod may do with what its spec says.
func inspect(pod *corev1.Pod) error {
	all, err := processes()
	if err != nil {
		return err
	}
	var problems []error
	declared := map[int]bool{}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			declared[int(port.ContainerPort)] = true
		}
	}
	for _, container := range pod.Spec.Containers {
		_, id, _ := strings.Cut(statusOf(pod, container.Name).ContainerID, "://")
		if len(all[id]) == 0 {
			problems = append(problems, fmt.Errorf("container %s has no process", container.Name))
			continue
		}
		for _, one := range all[id] {
			if err := errors.Join(one.limited(pod, container), one.mounts(container), one.ports(pod, declared)); err != nil && !one.ended() {
				problems = append(problems, fmt.Errorf("container %s, process %s: %w", container.Name, one.status["Name"], err))
			}
		}
	}
	if problems != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, errors.Join(problems...))
	}
	return nil
}

func statusOf(pod *corev1.Pod, container string) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// ended tells whether the process has ended since it was found. The driver starts short ones.
func (p process) ended() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	return err != nil || regexp.MustCompile(`(?m)^State:\s+[ZX]`).Match(text)
}

// limited compares user, capabilities, seccomp and privileges with the securityContext.
func (p process) limited(pod *corev1.Pod, container corev1.Container) error {
	of, with := pod.Spec.SecurityContext, container.SecurityContext
	if of == nil {
		of = &corev1.PodSecurityContext{}
	}
	if with == nil {
		with = &corev1.SecurityContext{}
	}
	var problems []error
	want := func(field, value string) {
		if got := p.status[field]; got != value {
			problems = append(problems, fmt.Errorf("%s is %s, want %s", field, got, value))
		}
	}
	user, _, _ := strings.Cut(p.status["Uid"], "\t")
	nonRoot := of.RunAsNonRoot != nil && *of.RunAsNonRoot || with.RunAsNonRoot != nil && *with.RunAsNonRoot
	if nonRoot && user == "0" {
		problems = append(problems, errors.New("it runs as root"))
	}
	if with.Capabilities != nil && slices.Contains(with.Capabilities.Drop, "ALL") {
		want("CapEff", "0000000000000000")
		want("CapBnd", "0000000000000000")
	}
	if with.AllowPrivilegeEscalation != nil && !*with.AllowPrivilegeEscalation {
		want("NoNewPrivs", "1")
	}
	filtered := with.SeccompProfile != nil || of.SeccompProfile != nil && (with.Privileged == nil || !*with.Privileged)
	want("Seccomp", map[bool]string{true: "2", false: "0"}[filtered])
	return errors.Join(problems...)
}

// mounts compares the root and the volumes with what the container says about them.
func (p process) mounts(container corev1.Container) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", p.pid))
	if err != nil {
		return err
	}
	options, shared := map[string][]string{}, map[string]bool{}
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		fields := strings.Fields(scanner.Text())
		if len(fields) > 6 {
			options[fields[4]], shared[fields[4]] = strings.Split(fields[5], ","), strings.HasPrefix(fields[6], "shared:")
		}
	}
	var problems []error
	if with := container.SecurityContext; with != nil && with.ReadOnlyRootFilesystem != nil && *with.ReadOnlyRootFilesystem {
		if !slices.Contains(options["/"], "ro") {
			problems = append(problems, errors.New("its root can be written"))
		}
	}
	for _, mount := range container.VolumeMounts {
		place := filepath.Clean(mount.MountPath)
		if options[place] == nil {
			problems = append(problems, fmt.Errorf("nothing is mounted at %s", place))
		}
		if mount.ReadOnly && !slices.Contains(options[place], "ro") {
			problems = append(problems, fmt.Errorf("%s can be written", place))
		}
		if mount.MountPropagation != nil && *mount.MountPropagation == corev1.MountPropagationBidirectional && !shared[place] {
			problems = append(problems, fmt.Errorf("mounts below %s do not reach the node", place))
		}
	}
	return errors.Join(problems...)
}

// ports returns an error for each port of the node that the process listens on and the pod does not declare.
func (p process) ports(pod *corev1.Pod, declared map[int]bool) error {
	if !pod.Spec.HostNetwork {
		return nil
	}
	sockets := map[string]bool{}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
	if err != nil {
		return err
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil {
			sockets[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	var problems []error
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", p.pid, table))
		if errors.Is(err, fs.ErrNotExist) {
			// The kernel has no IPv6, or the process has ended.
			continue
		}
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			const listening = "0A"
			if len(fields) < 10 || fields[3] != listening || !sockets[fields[9]] {
				continue
			}
			_, hexadecimal, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseInt(hexadecimal, 16, 32)
			if err != nil {
				return err
			}
			if !declared[int(port)] {
				problems = append(problems, fmt.Errorf("it listens on port %d of the node, which the pod does not declare", port))
			}
		}
	}
	return errors.Join(problems...)
}
