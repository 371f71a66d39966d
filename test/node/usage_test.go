package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// usage is what the processes of a container, or a kubelet, have used.
type usage struct {
	seconds   float64
	mebibytes int
}

// usages are by container, and by the program of the node. What several nodes have is added up.
type usages map[string]usage

// measure adds up what runs: containers of operators and drivers, and programs of the real nodes.
func measure(ctx context.Context) (usages, error) {
	found := usages{}
	containers, err := processes()
	if err != nil {
		return nil, err
	}
	pods, err := operands(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		for _, status := range pods[i].Status.ContainerStatuses {
			_, id, _ := strings.Cut(status.ContainerID, "://")
			name := workload(&pods[i]) + " " + status.Name
			for _, one := range containers[id] {
				if err := found.add(name, one.pid); err != nil {
					return nil, err
				}
			}
		}
	}
	programs, err := nodePrograms()
	if err != nil {
		return nil, err
	}
	for pid, name := range programs {
		if err := found.add(name, pid); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// workload is the name of the Deployment or the DaemonSet of a pod.
func workload(pod *corev1.Pod) string {
	return strings.TrimSuffix(strings.TrimSuffix(pod.GenerateName, "-"), "-"+pod.Labels["pod-template-hash"])
}

// add adds what a process has used until now. It may have ended.
func (u usages) add(name string, pid int) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil //nolint:nilerr // The process has ended.
	}
	// The program's name comes before, in brackets, and may hold anything. man 5 proc: the 14th and the 15th field are processor time.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const first, ticks = 3, 100
	one := u[name]
	for _, field := range []int{14, 15} {
		count, err := strconv.Atoi(fields[field-first])
		if err != nil {
			return fmt.Errorf("processor time of process %d: %w", pid, err)
		}
		one.seconds += float64(count) / ticks
	}
	resident, _, err := env.Resident(pid)
	one.mebibytes += resident
	u[name] = one
	return err
}

// nodePrograms are the processes of the real nodes that are in no container, by their IDs.
func nodePrograms() (map[int]string, error) {
	nodes, err := nodeProcesses()
	if err != nil {
		return nil, err
	}
	found := map[int]string{}
	var descend func(pid int)
	descend = func(pid int) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		arguments := strings.Split(string(line), "\x00")
		name := filepath.Base(arguments[0])
		if name == "devcluster" && len(arguments) > 1 {
			name = strings.TrimRight(arguments[1], "-0123456789")
		}
		found[pid] = "node: " + name
		// Below a shim are containers.
		if name == "containerd-shim-runc-v2" {
			return
		}
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			for field := range strings.FieldsSeq(string(text)) {
				if child, err := strconv.Atoi(field); err == nil {
					descend(child)
				}
			}
		}
	}
	for _, pid := range nodes {
		descend(pid)
	}
	return found, nil
}

// nodeProcesses are the first processes of the real nodes.
func nodeProcesses() ([]int, error) {
	text, err := os.ReadFile(filepath.Join(suite.cluster.Dir, "state.json"))
	if err != nil {
		return nil, err
	}
	var state struct {
		Processes []struct {
			Name string
			PID  int
		}
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, err
	}
	var found []int
	for _, process := range state.Processes {
		if strings.HasPrefix(process.Name, "node-") {
			found = append(found, process.PID)
		}
	}
	if len(found) != len(suite.nodes) {
		return nil, fmt.Errorf("%d processes of %d real nodes", len(found), len(suite.nodes))
	}
	return found, nil
}

// mounted returns an error that names volumes which are still mounted on a real node.
func mounted() error {
	nodes, err := nodeProcesses()
	if err != nil {
		return err
	}
	var problems []error
	for _, pid := range nodes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		problems = append(problems, err)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "kubernetes.io~csi") {
				problems = append(problems, errors.New("still mounted is "+strings.Fields(line)[4]))
			}
		}
	}
	return errors.Join(problems...)
}

// since is a table of what was used after before; the memory is that of during and of now.
func (u usages) since(before, during usages) string {
	text := "seconds of a processor, MiB before, in use and after:"
	for _, name := range slices.Sorted(maps.Keys(during)) {
		spent := u[name].seconds - before[name].seconds
		text += fmt.Sprintf("\n%-70s %7.2f %5d %5d %5d", name, spent, before[name].mebibytes, during[name].mebibytes, u[name].mebibytes)
	}
	return text
}
