package rollout

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

const prefix = "AWSEFSDriverNodeServiceController"

// installed returns a driver with node pods on nodes; pods of old templates are outdated.
func installed(t *testing.T, templates map[string]int, more ...client.Object) *canned.Cluster {
	t.Helper()
	labels := map[string]string{"app": "efs-csi-node"}
	daemonSet := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "drivers", Name: "efs-csi-node", UID: "d", Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "7"},
		},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
		},
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: int32(len(templates))},
	}
	owned := func(name string, uid types.UID, hash string) metav1.ObjectMeta {
		owner := *metav1.NewControllerRef(daemonSet, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
		return metav1.ObjectMeta{
			Namespace: "drivers", Name: name, UID: uid, OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{"app": "efs-csi-node", appsv1.ControllerRevisionHashLabelKey: hash},
		}
	}
	objects := []client.Object{daemonSet, &appsv1.ControllerRevision{ObjectMeta: owned("new", "r", "new"), Revision: 7}}
	for node, template := range templates {
		pod := &corev1.Pod{ObjectMeta: owned("efs-csi-node-"+node, types.UID(node), "of"+strconv.Itoa(template)), Spec: corev1.PodSpec{NodeName: node}}
		pod.Labels["pod-template-generation"] = strconv.Itoa(template)
		objects = append(objects, pod)
	}
	return plugintest.Cluster(t, append(objects, more...)...)
}

// used returns a pod that uses a volume on a node.
func used(node string) []client.Object {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: awsefs.Name}
	volume.Spec.ClaimRef, volume.Status.Phase = &corev1.ObjectReference{Namespace: "my-project", Name: "data"}, corev1.VolumeBound
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "my-project", Name: "web-0"}, Spec: corev1.PodSpec{NodeName: node}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	return []client.Object{volume, pod}
}

func driverWith(annotation string, conditions ...operatorv1.OperatorCondition) *operatorv1.ClusterCSIDriver {
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: awsefs.Name, UID: "cr"}}
	if annotation != "" {
		cr.Annotations = map[string]string{nodes.ReplaceNowAnnotation: annotation}
	}
	cr.Status.Conditions = conditions
	return cr
}

func waits() operatorv1.OperatorCondition {
	return operatorv1.OperatorCondition{
		Type: prefix + "Progressing", Status: operatorv1.ConditionTrue, Reason: nodes.NodesInUse, Message: "1 of 3 nodes have the new node pod",
	}
}

func broken() operatorv1.OperatorCondition {
	return operatorv1.OperatorCondition{
		Type: prefix + "Degraded", Status: operatorv1.ConditionTrue, Reason: "CanaryFailed", Message: "the new node pod does not work on node c",
	}
}

func TestTheStatusSaysWhatTheRollOutWaitsFor(t *testing.T) {
	for name, cluster := range map[string]*canned.Cluster{
		"not-installed": plugintest.Cluster(t),
		"done":          installed(t, map[string]int{"a": 7, "b": 7}, driverWith("")),
		"waits":         installed(t, map[string]int{"a": 6, "b": 6, "c": 7}, append(used("a"), driverWith("", waits()))...),
		"failed":        installed(t, map[string]int{"a": 6, "c": 7}, driverWith("", waits(), broken())),
		"no-operator":   installed(t, map[string]int{"a": 6}),
	} {
		golden.CompareText(t, "status-"+name+".txt", plugintest.Run(t, cluster, "", Command, "rollout", "status").Text())
		if len(cluster.Writes) > 0 {
			t.Errorf("%s: it writes %q", name, cluster.Writes)
		}
	}
	waiting := installed(t, map[string]int{"a": 6, "b": 6, "c": 7}, append(used("a"), driverWith("7", waits()))...)
	golden.CompareText(t, "status.json", plugintest.Run(t, waiting, "", Command, "rollout", "status", "-o", "json").Text())
	waiting.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, "", errors.New("no")), "list PersistentVolume")
	golden.CompareText(t, "status-no-right.txt", plugintest.Run(t, waiting, "", Command, "rollout", "status").Text())
	waiting.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")), "list Pod")
	golden.CompareText(t, "status-hidden.txt", plugintest.Run(t, waiting, "", Command, "rollout", "status").Text())
	unseen := plugintest.Cluster(t)
	unseen.Refuse(apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, "", errors.New("no")), "list DaemonSet")
	if got := plugintest.Run(t, unseen, "", Command, "rollout", "status"); got.Code != plugin.Failed || !strings.Contains(got.Out, "you lack permission to list") {
		t.Error(got.Text())
	}
	waiting.Refuse(errors.New("the API is away"))
	if got := plugintest.Run(t, waiting, "", Command, "rollout", "status"); got.Code != plugin.Failed {
		t.Error(got.Text())
	}
}

func TestKubernetesReplacesNodePodsByAnotherStrategy(t *testing.T) {
	cluster := installed(t, map[string]int{"a": 6, "b": 7}, driverWith(""))
	daemonSet, _ := cluster.Objects[0].(*appsv1.DaemonSet)
	daemonSet.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	golden.CompareText(t, "status-kubernetes.txt", plugintest.Run(t, cluster, "", Command, "rollout", "status").Text())
}

func TestResumeAsksAndAnnotatesTheVeryObject(t *testing.T) {
	cluster := installed(t, map[string]int{"a": 6, "b": 6, "c": 7}, append(used("a"), driverWith("6", waits()))...)
	golden.CompareText(t, "resume-no.txt", plugintest.Run(t, cluster, "n\n", Command, "rollout", "resume").Text())
	if len(cluster.Writes) > 0 {
		t.Errorf("without a yes it writes %q", cluster.Writes)
	}
	golden.CompareText(t, "resume.txt", plugintest.Run(t, cluster, "y\n", Command, "rollout", "resume").Text())
	want := []string{`patch ClusterCSIDriver efs.csi.aws.com {"metadata":{"annotations":{"` + nodes.ReplaceNowAnnotation + `":"7"},"uid":"cr"}}`}
	if diff := cmp.Diff(want, cluster.Sent()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	cluster.Refuse(errors.New("denied"), "patch")
	if got := plugintest.Run(t, cluster, "", Command, "rollout", "resume", "--yes"); got.Code != plugin.Failed {
		t.Error(got.Text())
	}
}

func TestResumeSaysWhyThereIsNothingToResume(t *testing.T) {
	for name, tc := range map[string]struct {
		state State
		hasCR bool
		want  string
		wrong bool
	}{
		"done":         {State{Phase: done, Message: "all"}, true, "all", false},
		"failed":       {State{Phase: failed, Message: "canary"}, true, "canary", true},
		"no number":    {State{Phase: nodes.NodesInUse}, true, "Kubernetes has not given the DaemonSet's template a revision number yet: run the command again", true},
		"no operator":  {State{Phase: nodes.NodesInUse, Driver: "d", Number: "7"}, false, "ClusterCSIDriver d does not exist, or you lack permission to read it: no operator would read the annotation", true},
		"done already": {State{Phase: nodes.NodesInUse, Number: "7", Now: true}, true, "the command was run for this update before, and nodes in use no longer wait", false},
		"waits":        {State{Phase: nodes.NodesInUse, Number: "7"}, true, "", false},
	} {
		if got, wrong := refusal(tc.state, tc.hasCR); got != tc.want || wrong != tc.wrong {
			t.Errorf("%s: %q %t", name, got, wrong)
		}
	}
	idle := State{Waiting: []Node{{Name: "a"}}}
	if got, want := questionOf(idle), "1 nodes have an old node pod, and no pod uses a volume there. Replace the node pods now?"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	idle.UsersUnknown = true
	if got, want := questionOf(idle), "1 nodes have an old node pod. While a node pod is replaced, pods on its node wait for their volumes for a moment; you lack permission "+
		"to list these pods. Replace the node pods now?"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	settled := installed(t, map[string]int{"a": 7}, driverWith(""))
	if got := plugintest.Run(t, settled, "", Command, "rollout", "resume"); got.Code != 0 || got.Out != "Nothing was done: all nodes have the newest node pod.\n" {
		t.Error(got.Text())
	}
	if got := plugintest.Run(t, plugintest.Cluster(t), "", Command, "rollout", "resume"); got.Code != plugin.Wrong {
		t.Error(got.Text())
	}
}

func TestAWatchFollowsTheRollOutToItsEnd(t *testing.T) {
	cr := driverWith("", waits())
	cluster := installed(t, map[string]int{"a": 6, "b": 7, "c": 7}, cr)
	reads := 0
	cluster.Fail = func(request string) error {
		if request == "get ClusterCSIDriver "+awsefs.Name {
			reads++
		}
		if reads == 3 {
			cluster.Objects = slices.DeleteFunc(cluster.Objects, func(one client.Object) bool { return one.GetName() == "efs-csi-node-a" })
		}
		return nil
	}
	golden.CompareText(t, "watch.txt", plugintest.Run(t, cluster, "", Command, "rollout", "status", "--watch").Text())
	cr.Status.Conditions = append(cr.Status.Conditions, broken())
	wrong := plugintest.Run(t, installed(t, map[string]int{"a": 6}, cr), "", Command, "rollout", "status", "--watch")
	if wrong.Code != plugin.Wrong || !strings.Contains(wrong.Out, "the new node pod does not work on node c") {
		t.Error(wrong.Text())
	}
}
