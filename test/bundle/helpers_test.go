package bundle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
)

const (
	nodeDaemonSet        = "efs-csi-node"
	controllerDeployment = "aws-efs-csi-driver-controller"
)

// ask creates the ClusterCSIDriver that the console offers when the operator is installed.
func (s *scene) ask(t *testing.T, csv fakeolm.CSV) {
	t.Helper()
	env.Must(t, s.Client.Create(t.Context(), annotated(t, csv, initAnnotation)))
}

// at checks that the driver of a version is rolled out.
func (s *scene) at(ctx context.Context, csv fakeolm.CSV) error {
	if err := s.Settled(ctx); err != nil {
		return err
	}
	cr := env.EFS("")
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
		return err
	}
	if cr.Status.Version != csv.Version.String() {
		return fmt.Errorf("the driver has version %s", cr.Status.Version)
	}
	return nil
}

// workloads are those of the driver.
func (s *scene) workloads(ctx context.Context) (*appsv1.Deployment, *appsv1.DaemonSet, error) {
	deployment, daemonSet := &appsv1.Deployment{}, &appsv1.DaemonSet{}
	err := errors.Join(
		s.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: controllerDeployment}, deployment),
		s.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: nodeDaemonSet}, daemonSet))
	return deployment, daemonSet, err
}

// generations are the numbers of changes of the driver's workloads.
func (s *scene) generations(t *testing.T) (controller, nodes int64) {
	t.Helper()
	deployment, daemonSet, err := s.workloads(t.Context())
	env.Must(t, err)
	return deployment.Generation, daemonSet.Generation
}

// hasImagesOf checks that the driver's pods have the images of a release that are for them, all of them and no others.
func (s *scene) hasImagesOf(t *testing.T, r release.Release) {
	t.Helper()
	deployment, daemonSet, err := s.workloads(t.Context())
	env.Must(t, err)
	var used, released []string
	for _, pod := range []corev1.PodSpec{deployment.Spec.Template.Spec, daemonSet.Spec.Template.Spec} {
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			used = append(used, container.Image)
		}
	}
	for _, image := range r.Images {
		// The pods with this image are off by default.
		if image.Variable != "" && image.Variable != "NODE_HEALTH_IMAGE" {
			released = append(released, image.PullSpec())
		}
	}
	slices.Sort(used)
	slices.Sort(released)
	if diff := cmp.Diff(released, slices.Compact(used)); diff != "" {
		t.Errorf("images (-released +in pods):\n%s", diff)
	}
}

// share makes the SharedVolume of the examples in a namespace of its own, and a pod that uses it.
func (s *scene) share(t *testing.T, csv fakeolm.CSV) *corev1.Pod {
	t.Helper()
	env.Must(t, s.Namespace(t.Context(), "shop"))
	// A new installation denies SharedVolumes that no list allows.
	_, err := s.Kubectl(t.Context(), "annotate", "--overwrite", "namespace", "shop", "aws-efs.managed.openshift.io/allowed-shares="+env.FileSystem)
	env.Must(t, err)
	for _, example := range examples(t, csv) {
		if example.GetKind() != "SharedVolume" {
			continue
		}
		example.SetNamespace("shop")
		env.Must(t, s.Client.Create(t.Context(), example))
		sv := env.SharedVolume("shop", example.GetName())
		env.Eventually(t, "the SharedVolume ready", func() error { return s.Ready(t.Context(), sv) })
		return s.application(t, sv.Status.ClaimRef.Name, "")
	}
	t.Fatal("no example of a SharedVolume")
	return nil
}

// application is a running pod with a PVC. Without a node, the scheduler chooses one.
func (s *scene) application(t *testing.T, pvc, node string) *corev1.Pod {
	t.Helper()
	return s.RunPod(t, env.Application("shop", "web", node, pvc))
}

// survives checks that an application is the same pod as before, and was neither restarted nor asked to end.
func (s *scene) survives(t *testing.T, app *corev1.Pod) {
	t.Helper()
	live := &corev1.Pod{}
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(app), live))
	restarts := int32(0)
	for _, container := range live.Status.ContainerStatuses {
		restarts += container.RestartCount
	}
	if live.UID != app.UID || live.Status.Phase != corev1.PodRunning || live.DeletionTimestamp != nil || restarts > 0 {
		t.Errorf("the application is %s, deleted %v, restarted %d times, UID %s, was %s",
			live.Status.Phase, live.DeletionTimestamp, restarts, live.UID, app.UID)
	}
}

// identities are the UIDs of all that is in the cluster, but for what a change of the operator's or of the driver's pods makes anew
// by its nature: with the pods of the system's namespaces, what workloads keep of old templates, and the roles that OLM names after
// a version.
func (s *scene) identities(t *testing.T) env.Snapshot {
	t.Helper()
	all, err := s.Take(t.Context())
	env.Must(t, err)
	for name := range all {
		for _, replaced := range []string{"Pod " + s.namespace, "ReplicaSet.apps " + s.namespace, "ControllerRevision.apps " + s.namespace} {
			if strings.HasPrefix(name, replaced+"/") {
				delete(all, name)
			}
		}
		kind, object, _ := strings.Cut(name, " ")
		isOLMs := strings.HasSuffix(kind, ".rbac.authorization.k8s.io") && strings.Contains(object, "operator.v")
		// What the console shows is in the bundle of our own package only.
		if isOLMs || strings.HasSuffix(kind, ".console.openshift.io") {
			delete(all, name)
		}
	}
	return all
}

// same checks that nothing was made anew, came or went since.
func (s *scene) same(t *testing.T, before env.Snapshot) {
	t.Helper()
	env.Eventually(t, "the same objects as before", func() error { return before.Differs(s.identities(t)) })
}

// pods are the UIDs of the driver's pods.
func (s *scene) pods(t *testing.T) map[string]string {
	t.Helper()
	list := &corev1.PodList{}
	env.Must(t, s.Client.List(t.Context(), list, client.InNamespace(s.namespace)))
	found := map[string]string{}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Labels["app"] != env.OperatorName && pod.Labels["name"] != env.CommunityName {
			found[pod.Name] = string(pod.UID)
		}
	}
	return found
}

// writes are what the operator has written since a mark, each object once: not what it writes to lead, to report or to ask.
func (s *scene) writes(t *testing.T, since env.Mark) []string {
	t.Helper()
	requests, err := s.Audit.Since(since, env.OperatorUserIn(s.namespace))
	env.Must(t, err)
	var found []string
	for _, request := range requests {
		object := request.Object
		switch object.Resource {
		case "leases", "events", "subjectaccessreviews", "tokenreviews":
			continue
		}
		if request.IsWrite() && object.Subresource != "status" {
			name := object.Name
			if object.Resource == "pods" && strings.HasPrefix(name, nodeDaemonSet+"-") {
				// They are replaced one by one.
				name = nodeDaemonSet
			}
			found = append(found, fmt.Sprintf("%s %s %s", request.Verb, object.Resource, name))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// mark is the end of the audit log.
func (s *scene) mark(t *testing.T) env.Mark {
	t.Helper()
	mark, err := s.Audit.Now()
	env.Must(t, err)
	return mark
}

// equal fails the test if something is not as wanted.
func equal[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
