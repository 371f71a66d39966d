package nodes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const fleetDriver = "d.example.com"

// operated is an Updater on a cluster that does nothing by itself, and a clock.
type operated struct {
	Updater
	cache, cluster *canned.Cluster
	now            time.Time
	in             Input
	made           int
}

// operate has nodes whose pods have template 1, and a DaemonSet with template 2.
func operate(nodes ...string) *operated {
	o := &operated{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	daemonSet := ourNodes()
	daemonSet.Namespace, daemonSet.Name, daemonSet.UID = "here", "plugin", "ds"
	daemonSet.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "2"}
	daemonSet.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "plugin"}}
	daemonSet.Status.DesiredNumberScheduled = int32(len(nodes))
	o.in = Input{DaemonSet: daemonSet, Policy: driver.IdleFirst}
	objects := []client.Object{revision(daemonSet, 1, "old"), revision(daemonSet, 2, "new")}
	for _, node := range nodes {
		live := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		live.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		registered := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
		registered.Spec.Drivers = []storagev1.CSINodeDriver{{Name: fleetDriver}}
		objects = append(objects, live, registered, o.pod(node, "1", "old", true))
	}
	// What is true of one is true of the other, until a test says otherwise.
	o.cluster = canned.New(scheme.Scheme, objects...)
	o.cache = o.cluster
	o.Updater = Updater{Client: o.cache, Live: o.cluster, Driver: fleetDriver, Now: func() time.Time { return o.now }}
	return o
}

func revision(of *appsv1.DaemonSet, number int64, hash string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: "plugin-" + hash, Labels: map[string]string{"app": "plugin", appsv1.ControllerRevisionHashLabelKey: hash},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: of.Name, UID: of.UID, Controller: new(true)}},
		},
		Revision: number,
	}
}

// pod is a node pod of a template.
func (o *operated) pod(node, template, hash string, ready bool) *corev1.Pod {
	o.made++
	pod := plugin(node, "sa", ready)
	pod.Namespace, pod.Name, pod.UID = "here", fmt.Sprintf("plugin-%s-%d", node, o.made), types.UID(fmt.Sprint(node, o.made))
	pod.Labels = map[string]string{"app": "plugin", templateLabel: template, appsv1.ControllerRevisionHashLabelKey: hash}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "plugin", UID: "ds", Controller: new(true)}}
	pod.CreationTimestamp = metav1.NewTime(o.now)
	if !ready {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
	}
	return &pod
}

// use lets a pod use a volume on a node, ready and with a readiness probe that needs 30 seconds to fail.
func (o *operated) use(node string) *corev1.Pod {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + node}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: fleetDriver}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data-" + node}
	user := plugin(node, "default", true)
	user.Namespace, user.Name, user.UID, user.Labels = "shop", "web-"+node, types.UID("web-"+node), nil
	user.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + node},
	}}}
	user.Spec.Containers = []corev1.Container{{ReadinessProbe: &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 3}}}
	o.cluster.Objects = append(o.cluster.Objects, volume, &user)
	return &user
}

// replaced lets the DaemonSet make the new pods of nodes.
func (o *operated) replaced(ready bool, nodes ...string) {
	for _, node := range nodes {
		o.gone(node)
		o.cluster.Objects = append(o.cluster.Objects, o.pod(node, "2", "new", ready))
	}
}

// gone takes the node pod of a node out of the cluster.
func (o *operated) gone(node string) {
	o.cluster.Objects = slices.DeleteFunc(o.cluster.Objects, func(object client.Object) bool {
		pod, isPod := object.(*corev1.Pod)
		return isPod && pod.Labels["app"] == "plugin" && pod.Spec.NodeName == node
	})
}

// pass lets some time go by, and returns the nodes whose pod is deleted.
func (o *operated) pass(t *testing.T, after time.Duration) (string, Progress) {
	t.Helper()
	o.now = o.now.Add(after)
	before := len(o.cluster.Writes)
	made, err := o.Advance(t.Context(), o.in)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, write := range o.cluster.Writes[before:] {
		name, isDelete := strings.CutPrefix(write, "delete Pod here/plugin-")
		if !isDelete {
			t.Fatalf("wrote %s", write)
		}
		nodes = append(nodes, name[:strings.LastIndex(name, "-")])
	}
	return strings.Join(nodes, " "), made
}

// deletes is pass for one who expects something.
func (o *operated) deletes(t *testing.T, after time.Duration, want string) Progress {
	t.Helper()
	got, made := o.pass(t, after)
	if got != want {
		t.Fatalf("deleted %q, want %q; it says %s: %s", got, want, made.Reason, made.Message)
	}
	return made
}
