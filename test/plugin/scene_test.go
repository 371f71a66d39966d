package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
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

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/doctor"
	"github.com/csi-operators/csi-operators/internal/plugin/drivers"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

const (
	efs     = "efs.csi.aws.com"
	project = "shop"
)

// scene is a cluster with the driver, one file system with mount targets in zones a and b, and a user.
type scene struct {
	env.Scene
	cloud   *fakeaws.Cloud
	running *running
	// system can be mounted in all zones, lame not in zone c. Point is an access point of system.
	system, lame, point string
	// standin is the Deployment of the operator, which runs as a process beside the cluster.
	standin *appsv1.Deployment
}

// running is the operator, which all subtests share.
type running struct{ *env.Operator }

func open(t *testing.T) *scene {
	t.Helper()
	s := &scene{Scene: env.Scene{Cluster: pool.Lend(t), T: t}, running: &running{}}
	s.cloud = fakeaws.NewCloud(t, moto)
	_, subnets := s.cloud.VPC(nil)
	s.system, s.lame = s.cloud.FileSystem(nil, ""), s.cloud.FileSystem(nil, "")
	for i, subnet := range subnets {
		s.cloud.MountTarget(s.system, subnet)
		if i < 2 {
			s.cloud.MountTarget(s.lame, subnet)
		}
	}
	s.point = s.cloud.AccessPoint(s.system, nil)
	env.Must(t, s.Namespace(t.Context(), project))
	s.Keep(env.KeySecret(env.CloudSecret, "AKIAGOOD", "made-up"))
	labels := map[string]string{"app": "operator-of-efs"}
	s.standin = &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: env.OperatorName},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "registry.example/operator:1"}}},
		}},
	}
	s.Keep(s.standin)
	s.start()
	t.Cleanup(s.stop)
	env.Must(t, s.Client.Create(t.Context(), env.EFS(operatorv1.Managed)))
	t.Cleanup(func() {
		if err := s.Uninstall(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.Until("the driver is installed", func() error { return s.Settled(context.Background()) }, s.operatorRuns)
	return s
}

// in is the same for a subtest.
func (s *scene) in(t *testing.T) *scene {
	same := *s
	same.T, same.cloud = t, s.cloud.In(t)
	return &same
}

func (s *scene) start() {
	s.T.Helper()
	var err error
	s.running.Operator, err = s.StartOperator(context.Background(), []string{"--leader-elect=false"}, fakeaws.With(s.cloud.Proxy))
	env.Must(s.T, err)
}

func (s *scene) stop() {
	if err := s.running.Stop(); err != nil {
		s.T.Error(err)
	}
}

func (s *scene) operatorRuns() error {
	live := s.standin.DeepCopy()
	if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(live), live); err != nil {
		return err
	}
	if live.Status.AvailableReplicas == 0 {
		return errors.New("the operator's Deployment is not available")
	}
	return nil
}

// run runs a command as whoever has a kubeconfig, and returns what it prints and its exit code.
func run(t *testing.T, kubeconfig string, args ...string) (string, int) {
	t.Helper()
	out := &bytes.Buffer{}
	p := plugin.New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out})
	root := p.Root("oc storage", "1", doctor.Command(p), drivers.Command(p))
	root.SetArgs(append(args, "--kubeconfig", kubeconfig, "--namespace", project))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintln(out, "error:", err)
	}
	return out.String(), plugin.Code(err)
}

// causes checks that doctor names these causes, by their beginnings, and no others. What is only worth knowing does not count.
func (s *scene) causes(args []string, want ...string) func() error {
	return func() error {
		text, code := run(s.T, s.Kubeconfig(), append([]string{"doctor"}, args...)...)
		var got []string
		for _, match := range regexp.MustCompile(`(?m)^(?:ERROR|WARNING|UNKNOWN) +(.*)$`).FindAllStringSubmatch(text, -1) {
			got = append(got, match[1])
		}
		wanted := plugin.Wrong
		if len(want) == 0 {
			wanted = 0
		}
		same := len(got) == len(want) && code == wanted
		for i := range min(len(got), len(want)) {
			same = same && strings.HasPrefix(got[i], want[i])
		}
		if !same {
			return fmt.Errorf("doctor %v: exit code %d, causes %q, want %q:\n%s", args, code, got, want, text)
		}
		return nil
	}
}

// volume makes a volume and its claim in the namespace of the user.
func (s *scene) volume(name, handle, zone string) {
	s.T.Helper()
	volume, pvc, _ := env.Workload()
	volume.Name, pvc.Name, pvc.Namespace, pvc.Spec.VolumeName = project+"-"+name, name, project, project+"-"+name
	volume.Spec.CSI.VolumeHandle = handle
	volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: project, Name: name}
	if zone != "" {
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}}
	}
	s.Keep(volume)
	s.T.Cleanup(func() {
		// Its protection waits for pods, which have gone, and for a volume that is not there.
		for _, object := range []client.Object{pvc, volume} {
			s.Drop(object)
			if err := s.Client.Patch(context.Background(), object, env.Merge(`{"metadata":{"finalizers":null}}`)); client.IgnoreNotFound(err) != nil {
				s.T.Error(err)
			}
		}
	})
	s.Keep(pvc)
	s.Until("the claim is bound", func() error { return s.bound(pvc) })
}

func (s *scene) bound(pvc *corev1.PersistentVolumeClaim) error {
	if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(pvc), pvc); err != nil {
		return err
	}
	if pvc.Status.Phase != corev1.ClaimBound {
		return fmt.Errorf("PVC %s is %s", pvc.Name, pvc.Status.Phase)
	}
	return nil
}

// stuck makes a pod that waits for its volume on a node: the fake kubelet would run it.
func (s *scene) stuck(name, node, pvc, message string) {
	s.T.Helper()
	pod := env.Application(project, name, node, pvc)
	s.T.Cleanup(func() { s.Drop(pod) })
	s.RunPod(s.T, pod)
	s.Until("the pod waits", func() error {
		if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodPending, nil
		for i := range pod.Status.Conditions {
			if pod.Status.Conditions[i].Type != corev1.PodScheduled {
				pod.Status.Conditions[i].Status = corev1.ConditionFalse
			}
		}
		return s.Client.Status().Update(context.Background(), pod)
	})
	if message != "" {
		s.event("Pod", name, "FailedMount", message)
	}
}

func (s *scene) event(kind, name, reason, message string) {
	s.T.Helper()
	s.Keep(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: strings.ToLower(kind + "-" + name + "-" + reason)}, Type: corev1.EventTypeWarning,
		Reason: reason, Message: message, InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: project, Name: name},
		LastTimestamp: metav1.Now(),
	})
}

// claim makes one that waits.
func (s *scene) claim(name, class string) {
	s.T.Helper()
	_, pvc, _ := env.Workload()
	pvc.Name, pvc.Namespace, pvc.Spec.VolumeName, pvc.Spec.StorageClassName = name, project, "", &class
	if class == "" {
		pvc.Spec.StorageClassName = nil
	}
	s.Keep(pvc)
}

func (s *scene) class(name string, parameters map[string]string, annotations ...string) {
	s.T.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: efs, Parameters: parameters}
	for _, annotation := range annotations {
		class.Annotations = map[string]string{annotation: "true"}
	}
	s.Keep(class)
}

// workerIn is a node of a zone on which pods of users run.
func (s *scene) workerIn(zone string) string {
	s.T.Helper()
	nodes := &corev1.NodeList{}
	env.Must(s.T, s.Client.List(s.T.Context(), nodes))
	for _, node := range nodes.Items {
		if node.Labels[corev1.LabelTopologyZone] == zone && len(node.Spec.Taints) == 0 {
			return node.Name
		}
	}
	s.T.Fatalf("no worker is in %s", zone)
	return ""
}

// denied makes AWS refuse an action.
func denied(action string) func(fakeaws.Call) fakeaws.Fault {
	return func(call fakeaws.Call) fakeaws.Fault {
		if call.Action != action {
			return nil
		}
		return func(func() *fakeaws.Answer) *fakeaws.Answer {
			return fakeaws.Error(call.Action, http.StatusForbidden, "AccessDeniedException", "User is not authorized to perform: "+call.Action)
		}
	}
}
