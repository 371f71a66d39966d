package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/nodeimages"
)

// started is a pod of a golden variant, and the other variants with the same one.
type started struct {
	folder, variant string
	others          []string
	workload        string
	namespace       string
	template        corev1.PodTemplateSpec
	// isNode says that a DaemonSet has it, with a registrar in it.
	isNode bool
	// beside are the pods that must run on the node before it.
	beside []*started
}

func (s *started) String() string { return s.folder + "/" + s.variant + "/" + s.workload }

// Each pod that a variant of a driver's configuration has is started once: its containers are ready and run as the pod says, and the kubelet
// registers a node pod. Pods that differ in arguments and variables only are started once. NODE_PODS=distinct also starts pods with other names of
// arguments and variables, and NODE_PODS=all pods with other values.
func TestEachPodOfTheGoldenFilesStarts(t *testing.T) {
	if os.Getenv("NODE_PODS") == "" {
		t.Skip("NODE_PODS=each starts each pod that differs in more than arguments and variables")
	}
	rendered, err := env.Rendered(t.Context())
	env.Must(t, err)
	found, err := pods(rendered, os.Getenv("NODE_PODS"))
	env.Must(t, err)
	open(t, "--topology", "SingleReplica", "--real-nodes", "1")
	// Drivers of different platforms have the same ports of the node.
	var ports sync.Mutex
	t.Run("alone", func(t *testing.T) {
		for _, folder := range slices.Sorted(maps.Keys(found)) {
			t.Run(folder, func(t *testing.T) {
				t.Parallel()
				env.Must(t, applied(t, rendered[folder+"/base"]))
				for _, one := range found[folder] {
					t.Run(one.variant+" "+one.workload, func(t *testing.T) {
						env.Must(t, applied(t, servicesOf(rendered[folder+"/"+one.variant])))
						one.start(t, &ports)
					})
				}
			})
		}
	})
	t.Run("together", func(t *testing.T) { together(t, rendered, found) })
}

// pods are the distinct pods of each driver's folder, those of the base first.
func pods(rendered map[string][]*unstructured.Unstructured, which string) (map[string][]*started, error) {
	found, known := map[string][]*started{}, map[string]*started{}
	names := slices.SortedFunc(maps.Keys(rendered), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.TrimSuffix(a, "/base"), strings.TrimSuffix(b, "/base")), 0)
	})
	slices.SortStableFunc(names, func(a, b string) int {
		return map[bool]int{true: 0, false: 1}[strings.HasSuffix(a, "/base")] - map[bool]int{true: 0, false: 1}[strings.HasSuffix(b, "/base")]
	})
	for _, name := range names {
		folder, variant, _ := strings.Cut(name, "/")
		if folder == "catalogue" || variant == "payload" {
			continue
		}
		for _, object := range rendered[name] {
			one, err := read(object)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if one == nil {
				continue
			}
			one.folder, one.variant = folder, variant
			shape, err := one.shape(which)
			if err != nil {
				return nil, err
			}
			if same := known[shape]; same != nil {
				same.others = append(same.others, variant)
				continue
			}
			known[shape] = one
			found[folder] = append(found[folder], one)
		}
	}
	for _, folder := range found {
		for _, one := range folder {
			if one.workload != "csi-nodeplugin-nfsplugin" && one.isNode {
				one.beside = slices.DeleteFunc(slices.Clone(folder), func(other *started) bool { return other.workload != "csi-nodeplugin-nfsplugin" })
			}
		}
	}
	return found, nil
}

// read reads a workload; nil if the object is none.
func read(object *unstructured.Unstructured) (*started, error) {
	one := &started{workload: object.GetName(), namespace: object.GetNamespace()}
	switch object.GetKind() {
	case "Deployment":
		var deployment appsv1.Deployment
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment)
		one.template = deployment.Spec.Template
		return one, err
	case "DaemonSet":
		var daemonSet appsv1.DaemonSet
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &daemonSet)
		one.template, one.isNode = daemonSet.Spec.Template, true
		return one, err
	}
	return nil, nil //nolint:nilnil // Most objects are no workloads.
}

// shape is the same for pods of which one is started: see TestEachPodOfTheGoldenFilesStarts.
func (s *started) shape(which string) (string, error) {
	spec := s.template.Spec.DeepCopy()
	if which != "all" {
		spec.Affinity, spec.NodeSelector, spec.Tolerations = nil, nil, nil
		for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range containers {
				containers[i].Resources = corev1.ResourceRequirements{}
				if which != "distinct" {
					containers[i].Args, containers[i].Env = nil, nil
				}
				for j, argument := range containers[i].Args {
					containers[i].Args[j], _, _ = strings.Cut(argument, "=")
				}
				for j := range containers[i].Env {
					containers[i].Env[j].Value = ""
				}
			}
		}
	}
	text, err := json.Marshal(spec)
	return s.folder + s.workload + string(text), err
}

// applied makes what the pods of a driver need besides their Secrets. Kinds that this cluster lacks are left out.
func applied(t *testing.T, objects []*unstructured.Unstructured) error {
	t.Helper()
	var problems []error
	for _, object := range objects {
		switch object.GetKind() {
		case "Deployment", "DaemonSet", "CredentialsRequest", "PodDisruptionBudget", "ValidatingWebhookConfiguration", "StorageClass":
			continue
		}
		if object.GetNamespace() != "" {
			problems = append(problems, suite.cluster.Namespace(t.Context(), object.GetNamespace()))
		}
		configuration := client.ApplyConfigurationFromUnstructured(object.DeepCopy())
		err := suite.cluster.Client.Apply(t.Context(), configuration, client.FieldOwner("operator"), client.ForceOwnership)
		if err != nil && !meta.IsNoMatchError(err) {
			problems = append(problems, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err))
		}
	}
	return errors.Join(problems...)
}

// servicesOf are the Services among these objects. The stand-in for service-ca-operator issues the serving certificates of pods for them.
func servicesOf(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(object *unstructured.Unstructured) bool { return object.GetKind() != "Service" })
}

// start starts the pod, looks at it, and ends it.
func (s *started) start(t *testing.T, ports *sync.Mutex) {
	if s.template.Spec.HostNetwork {
		ports.Lock()
		defer ports.Unlock()
	}
	for _, other := range s.beside {
		pod := other.create(t)
		defer remove(t, pod)
	}
	begin := time.Now()
	pod := s.create(t)
	defer remove(t, pod)
	err := env.AwaitFor(t.Context(), soon, s.String()+" ready", func() error {
		if err := suite.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		return running(pod)
	})
	if err == nil {
		err = inspect(pod)
	}
	env.Must(t, s.record(time.Since(begin), err))
	if err != nil {
		showPod(t, pod)
		t.Fatal(err)
	}
	if slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool { return strings.Contains(container.Name, "registrar") }) {
		eventually(t, "the kubelet registers the driver", func() error { return registered(t, s.csi(), true) })
	}
}

// csi is the name of the driver for Kubernetes.
func (s *started) csi() string { return cmp.Or(nodeimages.Drivers()[s.folder], efsName) }

func (s *started) create(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, GenerateName: s.workload + "-", Labels: s.template.Labels, Annotations: s.template.Annotations,
		},
		Spec: *s.template.Spec.DeepCopy(),
	}
	if lacking := s.lacks(); len(lacking) > 0 {
		t.Logf("this machine or the driver here has no %s: %s is started without", strings.Join(lacking, " and no "), s)
		leaveOut(&pod.Spec, lacking)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i].Image = nodeimages.Renamed(containers[i].Image, s.folder)
		}
	}
	env.Must(t, needs(t.Context(), pod))
	env.Must(t, suite.cluster.Client.Create(t.Context(), pod))
	return pod
}

// remove ends a pod at once: how pods end is tried with those that the operators make.
func remove(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := suite.cluster.Client.Delete(ctx, pod, client.GracePeriodSeconds(1)); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	if err := env.AwaitFor(ctx, soon, "pod "+pod.Name+" gone", func() error { return suite.cluster.Gone(ctx, pod.DeepCopy()) }); err != nil {
		t.Error(err)
	}
}

// showPod logs why a pod is not ready.
func showPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	output, err := suite.cluster.Kubectl(t.Context(), "get", "events", "-n", pod.Namespace, "--field-selector", "involvedObject.name="+pod.Name)
	t.Log(output, err)
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Ready && status.RestartCount == 0 {
			continue
		}
		output, err := suite.cluster.Kubectl(t.Context(), "logs", "-n", pod.Namespace, pod.Name, "-c", status.Name, "--tail=15")
		t.Log(status.Name, status.State, status.LastTerminationState, output, err)
	}
}
