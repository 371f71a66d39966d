package rollout

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// newImages changes an image of the node pods. The first node in use can't pull it: nothing in use is disturbed, not even when the operator is killed.
// Then it can, and each node in use has pulled before it loses its node pod.
func (s *scene) newImages(t *testing.T) {
	node := s.workers[0]
	// The fake kubelet gives neither pod of that node a status. The node pod there is ready already.
	env.HoldReadiness(t, s.Cluster, predecessors.NodeAccount, node, node)
	mark, err := s.Audit.Now()
	env.Must(t, err)
	r := s.record(t)
	images := []string{"LIVENESS_PROBE_IMAGE=registry.example/livenessprobe:2.0.0"}
	env.Must(t, s.operator.Stop())
	s.start(images...)
	env.Eventually(t, "the pull fails", func() error { return s.failPull(t, node) })
	env.Eventually(t, "the failure is reported", func() error {
		return s.Says(t.Context(), driverName, "AWSEFSDriverNodeServiceControllerDegraded", "True/ImagePullFailed", node, "livenessprobe:2.0.0", "no such image")
	})
	env.Eventually(t, "idle nodes have the new node pod", func() error {
		if got := r.replaced(); got != s.count-s.used {
			return fmt.Errorf("%d pods were replaced", got)
		}
		return nil
	})
	s.operator.Kill()
	<-s.operator.Done()
	s.start(images...)
	env.Eventually(t, "the next operator pulls as well", func() error { return s.failPull(t, node) })
	env.Quiet(t, s.operator)
	if disturbed := r.disturbed(); len(disturbed) > 0 {
		t.Errorf("nodes in use %v were disturbed", disturbed)
	}
	env.ReleaseReadiness(t, s.Cluster, env.OperatorNamespace, driver.ImagesOf(daemonSet))
	env.Eventually(t, "the roll-out ends, and no pod that pulls is left", func() error { return errors.Join(s.settled(), s.noPuller(t)) })
	r.check(t)
	for _, removal := range r.seen().removals {
		if removal.inUse != removal.pulled {
			t.Errorf("node %s, in use %t, lost its node pod with images pulled: %t", removal.node, removal.inUse, removal.pulled)
		}
	}
	if disturbed := r.disturbed(); len(disturbed) != s.used || r.replaced() != s.count {
		t.Errorf("nodes in use %v got a new node pod, want %d; %d pods were replaced", disturbed, s.used, r.replaced())
	}
	requests, err := s.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	writes := env.Filter(requests, func(r env.Request) bool { return r.IsWrite() && r.Object.Name == driver.ImagesOf(daemonSet) })
	t.Logf("%d requests to pull images on %d nodes in use of %d: %s", len(writes), s.used, s.count, env.Describe(writes))
	// Two operators, and a node at a time, after the first one has failed. Each is made and deleted.
	if len(writes) > 2*(2+s.used) {
		t.Errorf("%d requests:\n%s", len(writes), env.Describe(writes))
	}
}

// failPull lets the pull on a node fail, once there is a pod that pulls.
func (s *scene) failPull(t *testing.T, node string) error {
	pods := &corev1.PodList{}
	err := s.Client.List(t.Context(), pods, client.InNamespace(env.OperatorNamespace), client.MatchingLabels{"app": driver.ImagesOf(daemonSet)},
		client.MatchingFields{"spec.nodeName": node})
	if err != nil || len(pods.Items) == 0 {
		return errors.Join(err, errors.New("no pod pulls on node "+node))
	}
	pod := &pods.Items[0]
	pod.Status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "ImagePullBackOff", Message: fmt.Sprintf("Back-off pulling image %q: no such image", container.Image),
			}},
		})
	}
	return s.Client.Status().Update(t.Context(), pod)
}

// noPuller checks that nothing is left of what pulls images.
func (s *scene) noPuller(t *testing.T) error {
	left := &appsv1.DaemonSet{}
	left.Namespace, left.Name = env.OperatorNamespace, driver.ImagesOf(daemonSet)
	pods := &corev1.PodList{}
	err := s.Client.List(t.Context(), pods, client.InNamespace(env.OperatorNamespace), client.MatchingLabels{"app": left.Name})
	if len(pods.Items) > 0 {
		err = errors.Join(err, fmt.Errorf("%d pods pull images", len(pods.Items)))
	}
	return errors.Join(err, s.Gone(t.Context(), left))
}
