package node

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// tableFile is where the table of the started pods is, below bin/. Rows of earlier runs stay, so that a run can start a part of the pods.
const tableFile = "tests/node-pods.md"

const tableHead = `| Pod | Variants with the same pod | Real programs | Stand-ins | Recorder in place of | Left out | Ready after |
|---|---|---|---|---|---|---|
`

// table guards the file against the parallel tests of this package.
var table sync.Mutex

// record writes the pod's row of the table: what its containers ran, and when they were ready or why they were not.
func (s *started) record(after time.Duration, failure error) error {
	table.Lock()
	defer table.Unlock()
	root, err := env.Root()
	if err != nil {
		return err
	}
	file := filepath.Join(root, "bin", tableFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	rows := map[string]string{}
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for line := range strings.Lines(strings.TrimPrefix(string(text), tableHead)) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		rows[name] = line
	}
	outcome := after.Round(100 * time.Millisecond).String()
	if failure != nil {
		outcome = "refused: " + strings.NewReplacer("\n", " ", "|", "/").Replace(failure.Error())
	}
	ran := s.programs()
	cells := []string{
		s.String(), strings.Join(s.others, ", "), strings.Join(ran["real"], ", "), strings.Join(ran["stand-in"], ", "),
		strings.Join(ran["recorder"], ", "), strings.Join(s.lacks(), ", "), outcome,
	}
	for i := range cells {
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	rows[s.String()] = "| " + strings.Join(cells, " | ") + " |\n"
	content := tableHead
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		content += rows[name]
	}
	return os.WriteFile(file, []byte(content), 0o600)
}

// programs are the containers that run the real program, and those with a stand-in or the recorder.
func (s *started) programs() map[string][]string {
	found := map[string][]string{}
	for _, container := range slices.Concat(s.template.Spec.InitContainers, s.template.Spec.Containers) {
		image, kind := strings.ToLower(container.Image), "real"
		switch {
		case strings.Contains(image, "registrar"), strings.Contains(image, "liveness"):
			kind = "stand-in"
		case strings.Contains(image, "driver_image"), strings.Contains(image, "syncer"):
			kind = "recorder"
		}
		found[kind] = append(found[kind], container.Name)
	}
	return found
}

// newer are arguments of the EFS driver that v1.7.7 refuses, which runs here (cmd/main.go).
func newer() []string {
	return []string{"--volume-attach-limit-opt-in", "--volume-attach-limit", "--http-endpoint"}
}

// lacks are the folders of the kernel that a pod mounts and this machine lacks: its kubelet would refuse the pod. They are also the arguments that
// the EFS driver of this test lacks. Other containers of its pods have an argument of the same name.
func (s *started) lacks() []string {
	var found []string
	for _, container := range s.template.Spec.Containers {
		for _, argument := range container.Args {
			if name, _, _ := strings.Cut(argument, "="); isDriverOfEFS(container) && slices.Contains(newer(), name) {
				found = append(found, name)
			}
		}
	}
	for _, volume := range s.template.Spec.Volumes {
		if from := volume.HostPath; from != nil && strings.HasPrefix(from.Path, "/sys/") {
			if _, err := os.Stat(from.Path); err != nil {
				found = append(found, from.Path)
			}
		}
	}
	return found
}

// isDriverOfEFS reports whether the container runs the EFS driver: golden files have its image under a name of its own.
func isDriverOfEFS(container corev1.Container) bool {
	return container.Image == "registry.example/driver:v1"
}

// leaveOut takes folders of the node and arguments out of a pod.
func leaveOut(spec *corev1.PodSpec, lacking []string) {
	out := map[string]bool{}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(volume corev1.Volume) bool {
		out[volume.Name] = volume.HostPath != nil && slices.Contains(lacking, volume.HostPath.Path)
		return out[volume.Name]
	})
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].Args = slices.DeleteFunc(containers[i].Args, func(argument string) bool {
				name, _, _ := strings.Cut(argument, "=")
				return isDriverOfEFS(containers[i]) && slices.Contains(lacking, name)
			})
			containers[i].VolumeMounts = slices.DeleteFunc(containers[i].VolumeMounts, func(mount corev1.VolumeMount) bool { return out[mount.Name] })
		}
	}
}
