package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/canned"
	"github.com/csi-operators/csi-operators/internal/driver"
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

func TestWithoutOutdatedPodsNothingIsAsked(t *testing.T) {
	o := operate("a", "b")
	o.replaced(true, "a", "b")
	for range 3 {
		if made := o.deletes(t, time.Minute, ""); made.Message != "" || made.Again != 0 {
			t.Errorf("%+v", made)
		}
	}
	want := []string{"list Pod here", "list Pod here", "list Pod here"}
	if diff := cmp.Diff(want, o.cluster.Reads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

// A template that was used before has a new number, but its pods are those that are wanted.
func TestARollbackReplacesOnlyWhatDiffers(t *testing.T) {
	o := operate("a", "b", "c")
	o.in.DaemonSet.Annotations[appsv1.DeprecatedTemplateGeneration] = "3"
	for _, object := range o.cluster.Objects {
		if of, isRevision := object.(*appsv1.ControllerRevision); isRevision && of.Name == "plugin-old" {
			of.Revision = 3
		}
	}
	o.replaced(true, "b")
	o.deletes(t, 0, "b")
}

func TestACanaryIsProvenBeforeOthersFollow(t *testing.T) {
	o := operate("a", "b", "c", "d")
	made := o.deletes(t, 0, "a")
	if made.Canary != "a" {
		t.Errorf("canary %q", made.Canary)
	}
	// Its pod has gone, then it starts, then it serves before its kubelet knows the driver.
	o.gone("a")
	o.deletes(t, 2*time.Second, "")
	o.replaced(false, "a")
	made = o.deletes(t, 2*time.Second, "")
	if made.Reason != TryingCanary || made.Failed != "" || made.Canary != "" {
		t.Errorf("%+v", made)
	}
	o.register("a", false)
	o.replaced(true, "a")
	made = o.deletes(t, canaryPatience, "")
	if made.Reason != TryingCanary {
		t.Errorf("%+v", made)
	}
	made = o.deletes(t, canaryPatience, "")
	if want := "CSINode does not list driver"; !strings.Contains(made.Failed, want) {
		t.Errorf("failed %q, want %q", made.Failed, want)
	}
	o.register("a", true)
	if made = o.deletes(t, 2*time.Second, "b"); made.Failed != "" || made.Reason != ReplacingPods {
		t.Errorf("%+v", made)
	}
}

func (o *operated) register(node string, known bool) {
	for _, object := range o.cluster.Objects {
		if found, isNode := object.(*storagev1.CSINode); isNode && found.Name == node {
			found.Spec.Drivers = nil
			if known {
				found.Spec.Drivers = []storagev1.CSINodeDriver{{Name: fleetDriver}}
			}
		}
	}
}

func TestACanaryFails(t *testing.T) {
	for name, tc := range map[string]struct {
		waiting string
		after   time.Duration
		failed  bool
	}{
		"it starts":            {"ContainerCreating", time.Minute, false},
		"it does not for long": {"ContainerCreating", canaryPatience, true},
		"it never will":        {"ImagePullBackOff", 2 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := operate("a", "b")
			o.deletes(t, 0, "a")
			o.replaced(false, "a")
			for _, object := range o.cluster.Objects {
				if pod, isPod := object.(*corev1.Pod); isPod && pod.Spec.NodeName == "a" {
					pod.Status.ContainerStatuses[0].State.Waiting.Reason = tc.waiting
				}
			}
			if made := o.deletes(t, tc.after, ""); (made.Failed != "") != tc.failed || tc.failed && !strings.Contains(made.Failed, tc.waiting) {
				t.Errorf("failed %q", made.Failed)
			}
		})
	}
}

// The cache may go on to show what was deleted.
func TestWhatWasDeletedIsNotCountedOn(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	o.deletes(t, 0, "a")
	for range 3 {
		o.deletes(t, 2*time.Second, "")
	}
	o.replaced(true, "a")
	o.deletes(t, 2*time.Second, "b")
}

// An operator before this one may have deleted pods that the cache of this one still shows.
func TestTheNextOperatorComparesItsCacheWithTheCluster(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	o.cache = canned.New(scheme.Scheme, slices.Clone(o.cluster.Objects)...)
	o.Client = &split{Cluster: o.cluster, cache: o.cache}
	o.gone("a")
	o.deletes(t, 0, "")
}

// split reads from one cluster and writes to another.
type split struct {
	*canned.Cluster
	cache *canned.Cluster
}

func (s *split) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return s.cache.List(ctx, list, options...)
}

func TestNodesInUseHaveTheirTurn(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	web := o.use("a")
	o.use("b")
	o.deletes(t, 0, "a")
	o.replaced(true, "a")
	// Its pods have the time to become unready.
	if made := o.deletes(t, 10*time.Second, ""); made.Again > settleInterval {
		t.Errorf("again after %s", made.Again)
	}
	web.Status.Conditions[0].Status = corev1.ConditionFalse
	made := o.deletes(t, 30*time.Second, "")
	if made.Reason != Paused || !strings.Contains(made.Message, "shop/web-a on a") {
		t.Errorf("%s: %s", made.Reason, made.Message)
	}
	web.Status.Conditions[0].Status = corev1.ConditionTrue
	o.deletes(t, surveyInterval, "b")
	o.replaced(true, "b")
	if made := o.deletes(t, 2*time.Second, ""); !made.Ended {
		t.Errorf("%+v", made)
	}
	if made := o.deletes(t, 2*time.Second, ""); made.Ended {
		t.Error("it ends twice")
	}
}

// Between the survey and the deletion a pod may come.
func TestAPodThatComesAtTheLastMomentIsSeen(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	o.Live = &lateUser{Cluster: o.cluster, come: func() { o.use("a") }}
	o.deletes(t, 0, "")
	o.deletes(t, 2*time.Second, "b")
}

// lateUser lets a pod come after the first look at cordoned nodes, which is the last one before pods are deleted.
type lateUser struct {
	*canned.Cluster
	come func()
}

func (l *lateUser) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := l.Cluster.List(ctx, list, options...)
	if _, isNodes := list.(*corev1.NodeList); isNodes && l.come != nil {
		l.come()
		l.come = nil
	}
	return err
}

func TestADrainedNodeIsUsed(t *testing.T) {
	o := operate("a", "b", "c")
	o.in.Policy = driver.WhenDrained
	o.replaced(true, "c")
	o.use("a")
	web := o.use("b")
	made := o.deletes(t, 0, "")
	if made.Reason != NodesInUse || made.InUse != 2 || made.Again > drainInterval {
		t.Errorf("%+v", made)
	}
	for _, object := range o.cluster.Objects {
		if node, isNode := object.(*corev1.Node); isNode && node.Name == "b" {
			node.Spec.Unschedulable = true
		}
	}
	o.cluster.Objects = slices.DeleteFunc(o.cluster.Objects, func(object client.Object) bool { return object == web })
	o.deletes(t, drainInterval, "b")
}

func TestANodeThatIsDownHoldsUpNothing(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	for _, object := range o.cluster.Objects {
		switch typed := object.(type) {
		case *corev1.Node:
			if typed.Name == "a" {
				typed.Status.Conditions[0].Status = corev1.ConditionUnknown
			}
		case *corev1.Pod:
			if typed.Spec.NodeName == "a" {
				typed.Status.Conditions[0].Status = corev1.ConditionFalse
			}
		}
	}
	made := o.deletes(t, 0, "b")
	if !strings.Contains(made.Message, "nodes that are not ready are left alone: a") {
		t.Error(made.Message)
	}
}

func TestPodsStayWhileNewOnesWouldLackSomething(t *testing.T) {
	o := operate("a", "b")
	o.in.Lacks = "waiting for Secret x"
	if made := o.deletes(t, 0, ""); made.Message != "2 nodes keep their node pod: waiting for Secret x" {
		t.Error(made.Message)
	}
}

// What can't be read or deleted is tried again, and nothing is forgotten.
func TestARequestThatFailsIsTriedAgain(t *testing.T) {
	for _, request := range []string{
		"list ControllerRevision here", "list PersistentVolume", "list Node", "list Pod", "get CSINode c",
	} {
		o := operate("a", "b", "c")
		o.replaced(true, "c")
		o.cluster.Refuse(errors.New("no route"), request)
		if _, err := o.Advance(t.Context(), o.in); err == nil || !strings.Contains(err.Error(), "no route") {
			t.Errorf("%s: %v", request, err)
		}
		o.cluster.Fail = nil
		o.deletes(t, 2*time.Second, "a")
	}
}
