package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

const (
	shop       = "shop"
	fileSystem = "fs-0123456789abcdef0"
	// manyFailed is after how many failures the rest is not tried any more.
	manyFailed = 3
)

// writer is the pod that writes, and what it writes to.
type writing struct {
	pod *corev1.Pod
	nfs *env.NFS
	// registry has new images of the driver.
	registry *slowRegistry
}

// disturbance is something that happens while the pod writes.
type disturbance struct {
	name string
	do   func(*writing, *testing.T)
}

// result sums up what the writer has done through all disturbances of one kind. No line is lost, or the test has failed.
type result struct {
	times int
	stall float64
	lines int
}

// written lets a pod write to a volume of EFS, and disturbs what it depends on. No line is lost. The last disturbance is a removal.
func written(t *testing.T) {
	w := startWriting(t)
	w.registry = startRegistry(t)
	events := disturbances()
	if env.IsSoak(t) {
		dice := env.Dice(t)
		for range env.Rounds(t) {
			events = append(events, events[dice.IntN(len(disturbances()))])
		}
	}
	rows, failed := map[string]result{}, 0
	for _, event := range events {
		before := w.lines(t)
		if !t.Run(event.name, func(t *testing.T) { event.do(w, t) }) {
			failed++
		}
		if failed == manyFailed {
			break
		}
		eventually(t, "the pod writes after: "+event.name, func() error { return w.goesOn(len(before) + 5) })
		after := w.lines(t)[max(len(before)-1, 0):]
		gap := env.LongestPause(after)
		row := rows[event.name]
		rows[event.name] = result{row.times + 1, max(row.stall, gap.Length()), row.lines + len(after) - 1}
	}
	table := "event | times | longest stall in s | lines | lost"
	for _, event := range disturbances() {
		row := rows[event.name]
		table += fmt.Sprintf("\n%s | %d | %.2f | %d | 0", event.name, row.times, row.stall, row.lines)
	}
	t.Log("\n" + table)
	if failed < manyFailed {
		t.Run("a removal waits until the pod is gone", w.removalWaits)
	}
	w.end(t)
}

func disturbances() []disturbance {
	return []disturbance{
		{"nothing", func(w *writing, t *testing.T) {
			begun := len(w.lines(t))
			eventually(t, "lines", func() error { return w.goesOn(begun + 20) })
		}},
		{"kill -9 of the mount's process", (*writing).proxyKilled},
		{"full disk", (*writing).diskFull},
		{"upgrade to an image that can't be pulled", (*writing).pullFails},
		{"upgrade, IdleFirst, slow registry", (*writing).idleFirst},
		{"upgrade, RollingUpdate, slow registry", (*writing).rollingUpdate},
		{"upgrade, WhenDrained", (*writing).whenDrained},
		{"kill -9 of the operator", (*writing).operatorKilled},
		{"kill -9 of the driver on the node", (*writing).driverKilled},
		{"kill -9 of the kubelet", func(_ *writing, t *testing.T) { programKilled(t, "kubelet") }},
		{"kill -9 of containerd", func(_ *writing, t *testing.T) { programKilled(t, "containerd") }},
	}
}

// startWriting starts the pod, with a mount whose file system has little space.
func startWriting(t *testing.T) *writing {
	t.Helper()
	ctx := t.Context()
	nfs, err := suite.cluster.StartNFS(ctx, suite.nodes[0], "4m")
	env.Must(t, err)
	t.Cleanup(func() {
		if err := nfs.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := &writing{nfs: nfs}
	all := suite.cluster.Client
	env.Must(t, errors.Join(suite.cluster.Namespace(ctx, shop), all.Create(ctx, volumeOf()), all.Create(ctx, volumeClaim())))
	w.pod = env.Application(shop, "writer", suite.nodes[0], "data")
	container := &w.pod.Spec.Containers[0]
	container.Image, container.Command = env.WriterImage, env.Writes("/data/lines")
	container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	w.pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	eventually(t, "the writer created", func() error { return suite.cluster.Client.Create(ctx, w.pod) })
	eventually(t, "the pod writes", func() error { return errors.Join(suite.cluster.Running(ctx, w.pod), w.goesOn(0)) })
	env.Must(t, w.throughNFS())
	return w
}

// throughNFS returns an error unless the volume is mounted through the stand-in for NFS.
func (w *writing) throughNFS() error {
	pids, err := nodeProcesses()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pids[0]))
	if err == nil && !strings.Contains(string(text), "stand-in-for-nfs") {
		err = errors.New("no mount of the node goes through the stand-in for NFS")
	}
	return err
}

// end deletes what startWriting has made.
func (w *writing) end(t *testing.T) {
	t.Helper()
	for _, object := range []client.Object{w.pod.DeepCopy(), volumeClaim(), volumeOf()} {
		env.Must(t, client.IgnoreNotFound(suite.cluster.Client.Delete(t.Context(), object)))
	}
	eventually(t, "the pod gone", func() error { return suite.cluster.Gone(t.Context(), w.pod.DeepCopy()) })
}

// share is the folder with the files of the volume, as AWS would see it.
func (w *writing) share() string { return filepath.Join(w.nfs.Folder, fileSystem+"__") }

// lines are the times of the lines. Their numbers leave none out, and the pod was never started again.
func (w *writing) lines(t *testing.T) []float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.share(), "lines"))
	env.Must(t, err)
	found, err := env.Lines(string(text))
	env.Must(t, err)
	env.Must(t, suite.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(w.pod), w.pod))
	env.Must(t, running(w.pod))
	return found
}

// goesOn returns an error until there are more lines than that.
func (w *writing) goesOn(than int) error {
	text, err := os.ReadFile(filepath.Join(w.share(), "lines"))
	if count := strings.Count(string(text), "\n"); err == nil && count <= than {
		err = fmt.Errorf("%d lines, want more than %d", count, than)
	}
	return err
}

// within counts the lines in a span.
func (w *writing) within(t *testing.T, of env.Span) int {
	t.Helper()
	times := slices.DeleteFunc(w.lines(t), func(at float64) bool { return at < of.From || at > of.To })
	return len(times)
}

// happens waits until a request of any kind waits or goes on, after a time.
func (w *writing) happens(t *testing.T, what string, after float64) {
	t.Helper()
	eventually(t, "a request that "+what, func() error {
		events, err := w.nfs.Events()
		if err == nil && !slices.ContainsFunc(events, func(one env.Event) bool { return one.At >= after && strings.HasSuffix(one.What, what) }) {
			err = fmt.Errorf("after %.2f there is %v", after, events)
		}
		return err
	})
}

func volumeOf() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: shop + "-data"}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef: &corev1.ObjectReference{Namespace: shop, Name: "data"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: efsName, VolumeHandle: fileSystem},
		},
	}}
}

func volumeClaim() *corev1.PersistentVolumeClaim {
	volume := volumeOf()
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: volume.Spec.AccessModes, StorageClassName: new(""), VolumeName: volume.Name,
		Resources: corev1.VolumeResourceRequirements{Requests: volume.Spec.Capacity},
	}}
}

// nodePod is the node pod of EFS that is not about to end.
func nodePod(ctx context.Context) (*corev1.Pod, error) { return podOf(ctx, "efs-csi-node") }

// podOf is a pod of an operator or a driver that is not about to end.
func podOf(ctx context.Context, app string) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := suite.cluster.Client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": app}); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			return &pods.Items[i], nil
		}
	}
	return nil, fmt.Errorf("there is no pod of %s", app)
}
