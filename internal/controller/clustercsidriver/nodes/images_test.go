package nodes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
)

// operateImages is operate with new images in the newest template: the driver's, and not the registrar's. Each node but the idle ones is in use.
func operateImages(t *testing.T, idle string, nodes ...string) *operated {
	t.Helper()
	o := operate(nodes...)
	spec := &o.in.DaemonSet.Spec.Template.Spec
	spec.ServiceAccountName, spec.Tolerations = "node-sa", []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	for _, object := range o.cluster.Objects {
		if of, isRevision := object.(*appsv1.ControllerRevision); isRevision {
			spec.Containers = []corev1.Container{{Name: "driver", Image: "registry.example/driver:" + of.Name}, {Name: "registrar", Image: "registry.example/r:1"}}
			text, err := json.Marshal(map[string]any{"spec": map[string]any{"template": o.in.DaemonSet.Spec.Template}})
			if err != nil {
				t.Fatal(err)
			}
			of.Data.Raw = text
		}
	}
	for _, node := range nodes {
		if !strings.Contains(idle, node) {
			o.use(node)
		}
	}
	return o
}

// pulls returns the nodes on which the operator wants images, and the images.
func (o *operated) pulls(t *testing.T) string {
	t.Helper()
	var found []string
	for _, object := range o.Objects() {
		made, ok := object.(*appsv1.DaemonSet)
		if !ok {
			t.Fatalf("it wants %T", object)
		}
		for _, term := range made.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			found = append(found, term.MatchFields[0].Values...)
		}
		for _, container := range made.Spec.Template.Spec.Containers {
			found = append(found, container.Image)
		}
	}
	return strings.Join(found, " ")
}

// puller gives a node a pod that pulls images, whose container waits for a reason.
func (o *operated) puller(node, reason, message string) {
	o.cluster.Objects = slices.DeleteFunc(o.cluster.Objects, func(object client.Object) bool { return object.GetName() == "images-"+node })
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "here", "images-"+node, types.UID("images-"+node)
	pod.Labels = map[string]string{"app": driver.ImagesOf("plugin"), pullTemplate: "new"}
	pod.Spec.NodeName = node
	state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	if reason == "" {
		state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: state}}
	o.cluster.Objects = append(o.cluster.Objects, pod)
}

func TestANodeInUseHasTheNewImagesBeforeItsNewNodePod(t *testing.T) {
	o := operateImages(t, "a", "a", "b", "c")
	o.deletes(t, 0, "a")
	if got := o.pulls(t); got != "" {
		t.Errorf("before the canary serves, images are pulled: %s", got)
	}
	o.replaced(true, "a")
	made := o.deletes(t, time.Second, "")
	if got := o.pulls(t); got != "b registry.example/driver:plugin-new" || made.Again != passInterval || made.Reason != PullingImages {
		t.Errorf("pulled are %q, %+v", got, made)
	}
	for _, reason := range []string{"ContainerCreating", "ErrImagePull"} {
		o.puller("b", reason, "")
		made = o.deletes(t, time.Second, "")
		if want := "1 nodes in use pull the images of the new node pod before they get it: b"; !strings.Contains(made.Message, want) || made.PullFailed != "" {
			t.Errorf("%+v", made)
		}
	}
	o.puller("b", "CreateContainerConfigError", `configmap "`+missingConfigMap+`" not found`)
	o.deletes(t, time.Second, "b")
	if got := o.pulls(t); got != "" {
		t.Errorf("pods that have pulled stay: %s", got)
	}
	o.replaced(true, "b")
	o.deletes(t, time.Second, "")
	o.deletes(t, mostSettle, "")
	if got := o.pulls(t); got != "c registry.example/driver:plugin-new" {
		t.Errorf("pulled are %q", got)
	}
	// A container that runs has its image.
	o.puller("c", "", "")
	o.deletes(t, time.Second, "c")
	o.replaced(true, "c")
	o.deletes(t, time.Second, "")
	o.deletes(t, mostSettle, "")
	if made = o.deletes(t, mostSettle, ""); !made.Ended || o.Objects() != nil {
		t.Errorf("%+v, and it wants %v", made, o.Objects())
	}
}

// Where all nodes are in use, the canary is one of them.
func TestAPullThatFailsIsFoundBeforeAnythingIsDisturbed(t *testing.T) {
	o := operateImages(t, "", "a", "b")
	o.deletes(t, 0, "")
	o.puller("a", "ImagePullBackOff", "Back-off pulling image \"registry.example/driver:new\":\n unauthorized")
	made := o.deletes(t, time.Second, "")
	const said = `a (ImagePullBackOff: Back-off pulling image "registry.example/driver:new": unauthorized)`
	if !strings.Contains(made.PullFailed, said) || !strings.Contains(made.Message, said) || o.pulls(t) == "" {
		t.Errorf("%+v", made)
	}
	// The kubelet's next attempt changes no message.
	o.puller("a", "ErrImagePull", "unauthorized")
	if again := o.deletes(t, time.Hour, ""); again.PullFailed != made.PullFailed {
		t.Errorf("then it says %q", again.PullFailed)
	}
	o.puller("a", "CreateContainerConfigError", "")
	if made = o.deletes(t, time.Second, "a"); made.PullFailed != "" || made.Canary != "a" {
		t.Errorf("%+v", made)
	}
}

func TestAFailedPullStopsNodesInUseOnly(t *testing.T) {
	o := operateImages(t, "ae", "a", "b", "c", "d", "e")
	o.deletes(t, 0, "a")
	o.replaced(true, "a")
	o.deletes(t, time.Second, "e")
	o.puller("b", "ImagePullBackOff", "no such image")
	o.replaced(true, "e")
	for range 3 {
		if made := o.deletes(t, pullRoom, ""); made.PullFailed == "" || o.pulls(t) != "b registry.example/driver:plugin-new" {
			t.Errorf("pulled are %q: %+v", o.pulls(t), made)
		}
	}
	// An administrator who wants the others now gets them. A node without its image keeps its pod.
	o.in.ReplaceNow = "2"
	o.deletes(t, time.Second, "")
	if got := o.pulls(t); got != "b registry.example/driver:plugin-new" {
		t.Errorf("more than a tenth pull: %q", got)
	}
	// No pod uses b any more.
	o.cluster.Objects = slices.DeleteFunc(o.cluster.Objects, func(object client.Object) bool { return object.GetName() == "web-b" })
	if made := o.deletes(t, surveyInterval*20, "b"); made.PullFailed != "" {
		t.Errorf("%+v", made)
	}
}

func TestImagesThatCanNotBePulledAheadHoldNothing(t *testing.T) {
	for name, unscheduled := range map[string]bool{"the DaemonSet makes no pod": false, "the pod has no room": true} {
		o := operateImages(t, "", "a", "b")
		o.deletes(t, 0, "")
		if unscheduled {
			o.puller("a", "", "")
			pod, _ := o.cluster.Objects[len(o.cluster.Objects)-1].(*corev1.Pod)
			pod.Spec.NodeName, pod.Status.ContainerStatuses, pod.Spec.Affinity = "", nil, onNodes([]string{"a"})
		}
		o.deletes(t, pullRoom-time.Second, "")
		if got, _ := o.pass(t, time.Second); got != "a" {
			t.Errorf("%s: deleted %q", name, got)
		}
	}
}

func TestWhereNothingIsToBePulledNoPodPulls(t *testing.T) {
	for name, change := range map[string]func(*operated){
		"the images are the same": func(o *operated) {
			for _, object := range o.cluster.Objects {
				if of, isRevision := object.(*appsv1.ControllerRevision); isRevision {
					of.Data.Raw = []byte(strings.ReplaceAll(string(of.Data.Raw), "plugin-old", "plugin-new"))
				}
			}
		},
		"the node pod is broken": func(o *operated) {
			o.now = o.now.Add(time.Hour)
			o.gone("a")
			broken := o.pod("a", "1", "old", false)
			broken.CreationTimestamp.Time = o.now.Add(-brokenAfter)
			o.cluster.Objects = append(o.cluster.Objects, broken)
		},
	} {
		o := operateImages(t, "", "a")
		change(o)
		if got, made := o.pass(t, 0); got != "a" || o.Objects() != nil {
			t.Errorf("%s: deleted %q, %+v", name, got, made)
		}
	}
	o := operateImages(t, "", "a")
	o.in.Policy = driver.WhenDrained
	if o.deletes(t, 0, ""); o.Objects() != nil {
		t.Errorf("a node waits for its drain, and pulls %s", o.pulls(t))
	}
}

// What no revision says is pulled: Kubernetes keeps ten revisions.
func TestAnUnknownTemplateLacksAllImages(t *testing.T) {
	o := operateImages(t, "", "a")
	for _, object := range o.cluster.Objects {
		if of, isRevision := object.(*appsv1.ControllerRevision); isRevision && of.Name == "plugin-old" {
			of.Data.Raw = nil
		}
	}
	o.deletes(t, 0, "")
	if got := o.pulls(t); got != "a registry.example/driver:plugin-new registry.example/r:1" {
		t.Errorf("pulled are %q", got)
	}
}

// Images of more than a tenth of the nodes would fill disks long before their turn.
func TestATenthOfTheNodesPullsAtOnce(t *testing.T) {
	names := []string{"a0"}
	for i := range 29 {
		names = append(names, fmt.Sprintf("b%02d", i))
	}
	o := operateImages(t, "a0", names...)
	o.deletes(t, 0, "a0")
	o.replaced(true, "a0")
	o.deletes(t, time.Second, "")
	if got := o.pulls(t); got != "b00 b01 b02 registry.example/driver:plugin-new" {
		t.Errorf("pulled are %q", got)
	}
	before := o.Objects()
	o.puller("b01", "CreateContainerConfigError", "")
	// Another one may still fail.
	o.deletes(t, time.Second, "")
	if got := o.pulls(t); len(before) != 1 || got != "b00 b01 b02 registry.example/driver:plugin-new" {
		t.Errorf("the list changes with each node: %q", got)
	}
	o.puller("b00", "CreateContainerConfigError", "")
	o.puller("b02", "CreateContainerConfigError", "")
	o.deletes(t, time.Second, "b00")
	if got := o.pulls(t); got != "" {
		t.Errorf("pods that have pulled stay: %q", got)
	}
}

func TestPodsThatPullImages(t *testing.T) {
	o := operateImages(t, "", "a")
	o.in.DaemonSet.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	o.in.DaemonSet.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "linux"}
	golden.Compare(t, "images", []client.Object{imagePods(o.in.DaemonSet, "hash", []string{"a", "b"}, []string{"registry.example/driver:2"})})
}
