package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const (
	project   = "my-project"
	home      = "openshift-cluster-csi-drivers"
	system    = "fs-1234cdef"
	point     = "fsap-0123456789abcdef"
	operator  = "aws-efs-csi-driver-operator"
	daemonSet = "efs-csi-node"
	prefix    = "AWSEFS"
)

// scene is a cluster in which EFS works and pod web runs on node a, before a test breaks it.
type scene struct {
	t *testing.T
	*canned.Cluster
	log map[string]string
}

func open(t *testing.T) *scene {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, Cluster: canned.New(scheme), log: map[string]string{}}
	s.add(
		&storagev1.CSIDriver{ObjectMeta: named("", efsName, "app.kubernetes.io/managed-by", operator)},
		&operatorv1.ClusterCSIDriver{ObjectMeta: named("", efsName), Status: operatorv1.ClusterCSIDriverStatus{OperatorStatus: operatorv1.OperatorStatus{
			Version: "1.0.0", Conditions: []operatorv1.OperatorCondition{
				condition("Available", "True", "AsExpected", ""), condition("Degraded", "False", "AsExpected", ""), condition("Progressing", "False", "AsExpected", ""),
			},
		}}},
		deployment(home, operator, 1), deployment(home, "aws-efs-csi-driver-controller", 2),
		pod(home, operator+"-1", "a", operator, true), pod(home, "aws-efs-csi-driver-controller-1", "a", "aws-efs-csi-driver-controller", true),
		&appsv1.DaemonSet{
			ObjectMeta: named(home, daemonSet),
			Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": daemonSet}}},
			Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberReady: 3, NumberAvailable: 3},
		},
		&storagev1.StorageClass{ObjectMeta: named("", "efs"), Provisioner: efsName, Parameters: map[string]string{
			"provisioningMode": "efs-ap", "fileSystemId": system, "directoryPerms": "700",
		}},
		&storagev1.StorageClass{ObjectMeta: named("", "efs-sc"), Provisioner: efsName},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "other", Annotations: map[string]string{
			"storageclass.kubernetes.io/is-default-class": "true",
		}}, Provisioner: "disk.example.com"},
	)
	for _, name := range []string{"a", "b", "c"} {
		s.add(node(name), pod(home, daemonSet+"-"+name, name, daemonSet, true), &storagev1.CSINode{
			ObjectMeta: named("", name), Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: efsName, NodeID: name}}},
		})
	}
	s.add(claimOf("data", "efs", "pv-data"), volumeOf("pv-data", "data"), user("web", "a", "data", true))
	return s
}

func named(namespace, name string, labels ...string) metav1.ObjectMeta {
	made := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if len(labels) == 2 {
		made.Labels = map[string]string{labels[0]: labels[1]}
	}
	return made
}

func condition(kind, status, reason, message string) operatorv1.OperatorCondition {
	return operatorv1.OperatorCondition{Type: kind, Status: operatorv1.ConditionStatus(status), Reason: reason, Message: message}
}

func deployment(namespace, name string, available int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: named(namespace, name), Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
		Status: appsv1.DeploymentStatus{Replicas: available, AvailableReplicas: available},
	}
}

func pod(namespace, name, node, app string, ready bool) *corev1.Pod {
	made := &corev1.Pod{ObjectMeta: named(namespace, name, "app", app), Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "csi-driver"}}}}
	if ready {
		made.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: "True"}}}
		return made
	}
	made.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"},
	}}}}
	return made
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: named("", name, corev1.LabelTopologyZone, "us-east-1"+name),
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}}},
	}
}

// claimOf returns a PVC, which is bound if it has a volume.
func claimOf(name, class, volume string) *corev1.PersistentVolumeClaim {
	made := &corev1.PersistentVolumeClaim{ObjectMeta: named(project, name), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
	made.Status.Phase = corev1.ClaimBound
	if volume == "" {
		made.Status.Phase = corev1.ClaimPending
	}
	if class != "" {
		made.Spec.StorageClassName = &class
	}
	return made
}

func volumeOf(name, claim string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: named("", name), Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: project, Name: claim},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: efsName, VolumeHandle: system + "::" + point,
		}},
	}}
}

// user returns a pod with a claim. If it is not ready, none of its containers has started.
func user(name, node, claim string, ready bool) *corev1.Pod {
	made := pod(project, name, node, name, ready)
	made.UID = "uid-of-" + "web"
	made.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	if !ready {
		made.Status.ContainerStatuses[0].State.Waiting.Reason = "ContainerCreating"
	}
	return made
}

func eventOn(kind, name, reason, message string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: named(project, name+"."+strings.ToLower(reason)), Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: project, Name: name}, LastTimestamp: metav1.Unix(1000, 0),
	}
}

func (s *scene) add(objects ...client.Object) { s.Objects = append(s.Objects, objects...) }

// drop removes objects: "Kind name" or "Kind ns/name".
func drop[T client.Object](s *scene, names ...string) {
	s.Objects = slices.DeleteFunc(s.Objects, func(object client.Object) bool {
		_, is := object.(T)
		return is && (len(names) == 0 || slices.Contains(names, object.GetName()))
	})
}

// change changes an object.
func change[T client.Object](s *scene, name string, do func(T)) {
	s.t.Helper()
	for _, object := range s.Objects {
		if typed, is := object.(T); is && object.GetName() == name {
			do(typed)
			return
		}
	}
	s.t.Fatalf("the scene has no %T %s", *new(T), name)
}

// says sets conditions of the ClusterCSIDriver.
func (s *scene) says(conditions ...operatorv1.OperatorCondition) {
	s.t.Helper()
	change(s, efsName, func(cr *operatorv1.ClusterCSIDriver) {
		for _, one := range conditions {
			cr.Status.Conditions = slices.DeleteFunc(cr.Status.Conditions, func(old operatorv1.OperatorCondition) bool { return old.Type == one.Type })
			cr.Status.Conditions = append(cr.Status.Conditions, one)
		}
	})
}

// stuck makes pod web wait for its volume on a node.
func (s *scene) stuck(node string, texts ...string) {
	drop[*corev1.Pod](s, "web")
	s.add(user("web", node, "data", false))
	for _, text := range texts {
		s.add(eventOn("Pod", "web", "FailedMount", text))
	}
}

// share adds a SharedVolume with conditions, as "Type=Status Reason: message".
func (s *scene) share(phase v1alpha1.Phase, conditions ...metav1.Condition) {
	s.add(&v1alpha1.SharedVolume{
		ObjectMeta: named(project, "sv1"), Spec: v1alpha1.SharedVolumeSpec{FileSystemID: system, AccessPointID: point},
		Status: v1alpha1.SharedVolumeStatus{Phase: phase, Conditions: conditions},
	})
}

// ask runs the command, and returns its output and exit code.
func (s *scene) ask(output string, args ...string) (string, int) {
	s.t.Helper()
	subject, err := subjectOf(args)
	if err != nil {
		s.t.Fatal(err)
	}
	out := &bytes.Buffer{}
	p := plugin.New(genericiooptions.IOStreams{Out: out, ErrOut: out})
	p.Output, p.Now = output, func() time.Time { return time.Unix(2000, 0) }
	cluster := plugin.NewCluster(s.Cluster, nil, project)
	err = run(s.t.Context(), p, &reader{Cluster: cluster, facts: &facts{subject: subject}, logs: s.logs})
	return out.String(), plugin.Code(err)
}

func (s *scene) logs(_ context.Context, pod client.ObjectKey, container string, _ int64) (string, error) {
	text, is := s.log[pod.Name]
	if text == "broken" {
		return "", errors.New("read the log: the kubelet does not answer")
	}
	if !is {
		return "", nil
	}
	return fmt.Sprintf("I1 started %s\n%s", container, text), nil
}
