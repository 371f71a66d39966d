package rollout

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// Scenes share a cluster: each begins and ends with node pods that all have the newest template.
func TestNodePodsAreReplacedByWhoUsesVolumes(t *testing.T) {
	s := open(t)
	for _, each := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"idle nodes first, then nodes in use, one at a time", s.idleFirst},
		{"Kubernetes' own roll-out, to compare", s.rollingUpdate},
		{"pods become unready", s.pause},
		{"nodes in use wait until they are drained", s.whenDrained},
		{"another change in the middle", s.secondChange},
		{"the API server is away, and the operator is killed", s.disturbances},
		{"the canary fails", s.canaryFails},
		{"an image is new", s.newImages},
		// It leaves its nodes behind.
		{"TestTheTaintOfEachNewNodeGoesAfterItsRegistration", s.newNodes},
	} {
		if !t.Run(each.name, each.run) {
			return
		}
	}
}

func (s *scene) idleFirst(t *testing.T) {
	mark, err := s.Audit.Now()
	env.Must(t, err)
	r := s.record(t)
	s.change(t)
	env.Eventually(t, "the first pod is replaced", func() error {
		if r.replaced() == 0 {
			return errors.New("none")
		}
		return nil
	})
	// A pod comes at the last moment. Its node would be among the last idle ones.
	node := s.workers[len(s.workers)-1]
	app := s.application(t, "late", node)
	env.Eventually(t, "the roll-out ends", s.settled)
	env.Quiet(t, s.operator)
	r.check(t)
	requests, err := s.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	requests = env.Filter(requests, func(r env.Request) bool { return !r.IsLease() })
	t.Logf("%d requests for %d nodes; nodes in use disturbed: %d at a time, %d in all; at most %d nodes without a plugin",
		len(requests), s.count, r.seen().mostInUse, len(r.disturbed()), r.seen().most)
	// Whatever the number of nodes, there are requests to apply the change, and for the status.
	if most := max(60, 4*s.count); len(requests) > most {
		t.Errorf("%d requests for %d nodes, want at most %d:\n%s", len(requests), s.count, most, env.Describe(requests))
	}
	if disturbed := r.disturbed(); !slices.Contains(disturbed, node) || len(disturbed) != s.used+1 || r.replaced() != s.count {
		t.Errorf("nodes in use %v were disturbed, want %d, %s among them; %d pods were replaced", disturbed, s.used+1, node, r.replaced())
	}
	s.Drop(app)
	cr := env.CR(driverName, "")
	for reason, text := range map[string]string{nodes.TryingCanary: "trying the new node pod on", "NodePodsReplaced": "all nodes have"} {
		env.Eventually(t, "event "+reason, func() error { return s.HasEvent(t.Context(), cr, reason, text) })
	}
}

// That a DaemonSet gets this strategy is in a golden file of the driver.
func (s *scene) rollingUpdate(t *testing.T) {
	env.OnlySoak(t)
	s.policy(t, driver.RollingUpdate)
	env.Eventually(t, "Kubernetes replaces pods", func() error {
		if kind := s.daemonSet(t).Spec.UpdateStrategy.Type; kind != "RollingUpdate" {
			return fmt.Errorf("strategy %s", kind)
		}
		return nil
	})
	r := s.record(t)
	s.change(t)
	env.Eventually(t, "the roll-out ends", s.settled)
	t.Logf("nodes in use disturbed: %d at a time, %d in all; at most %d nodes without a plugin",
		r.seen().mostInUse, len(r.disturbed()), r.seen().most)
}

func (s *scene) whenDrained(t *testing.T) {
	// A typo holds nodes in use as well.
	s.policy(t, "Whendrained")
	r := s.record(t)
	s.change(t)
	s.says(t, nodes.NodesInUse, fmt.Sprintf("%d of %d nodes", s.count-s.used, s.count), "wait until they are drained", s.workers[0]+" (shop/web-"+s.workers[0]+")")
	env.Eventually(t, "the typo is reported", func() error {
		return s.Says(t.Context(), driverName, "ConfigObservationDegraded", "True/NotFollowed", `"Whendrained"`, string(driver.WhenDrained))
	})
	s.policy(t, driver.WhenDrained)
	env.Eventually(t, "the policy is followed", func() error {
		return s.Says(t.Context(), driverName, "ConfigObservationDegraded", "False/AsExpected")
	})
	if disturbed := r.disturbed(); len(disturbed) > 0 {
		t.Errorf("nodes in use %v were disturbed", disturbed)
	}
	env.Quiet(t, s.operator)
	if got := r.replaced(); got != s.count-s.used {
		t.Errorf("%d pods were replaced", got)
	}
	// The cluster's own update cordons a node, drains it, and starts it anew.
	node := s.workers[0]
	s.Patch(nodeOf(node), `{"spec":{"unschedulable":true}}`)
	s.Drop(podOf("web-" + node))
	env.Eventually(t, "the drained node has the new pod", func() error { return s.hasNew(t, node) })
	s.Patch(nodeOf(node), `{"spec":{"unschedulable":null}}`)
	s.application(t, "web-"+node, node)
	if disturbed := r.disturbed(); len(disturbed) > 0 {
		t.Errorf("nodes in use %v were disturbed", disturbed)
	}
	s.replaceNow(t)
	env.Eventually(t, "the roll-out ends", s.settled)
	if disturbed := r.disturbed(); len(disturbed) != s.used-1 || r.seen().most > s.bound {
		t.Errorf("nodes in use %v were disturbed, want %d; %d nodes were without a plugin", disturbed, s.used-1, r.seen().most)
	}
}

// In make test, canaryFails has a second change.
func (s *scene) secondChange(t *testing.T) {
	env.OnlySoak(t)
	r := s.record(t)
	s.change(t)
	env.Eventually(t, "some are replaced", func() error {
		if r.replaced() < s.count/3 {
			return fmt.Errorf("%d", r.replaced())
		}
		return nil
	})
	s.change(t)
	env.Eventually(t, "the roll-out ends", s.settled)
	if seen := r.seen(); seen.most > s.bound || seen.mostInUse > 1 || len(r.disturbed()) > s.used+1 {
		t.Errorf("%d nodes were without a plugin, %d in use; disturbed %v", seen.most, seen.mostInUse, r.disturbed())
	}
}

// pause lets a pod become unready when the plugin of its node is replaced.
func (s *scene) pause(t *testing.T) {
	r := s.record(t)
	app := s.unreadyWithPlugin(t)
	s.change(t)
	s.says(t, nodes.Paused, project+"/"+app.Name, "became unready")
	env.Eventually(t, "event", func() error { return s.HasEvent(t.Context(), env.CR(driverName, ""), nodes.Paused, app.Name) })
	env.Quiet(t, s.operator)
	if disturbed := r.disturbed(); len(disturbed) != 1 {
		t.Errorf("nodes in use %v were disturbed", disturbed)
	}
	env.Must(t, s.setReady(t.Context(), app, corev1.ConditionTrue))
	env.Eventually(t, "the roll-out ends", s.settled)
	r.check(t)
}

// unreadyWithPlugin makes the application of the first node in use unready while the operator deletes its plugin: after it looked who uses
// volumes there, and before it looks again. It is faster than a test that waits for that.
func (s *scene) unreadyWithPlugin(t *testing.T) *corev1.Pod {
	t.Helper()
	app, plugin := podOf("web-"+s.workers[0]), s.plugin(t, s.workers[0]).Name
	t.Cleanup(func() { s.through.Set(nil) })
	s.through.Set(func(r *http.Request) env.Fault {
		if r.Method != http.MethodDelete || path.Base(r.URL.Path) != plugin {
			return nil
		}
		return func(w http.ResponseWriter, forward func(http.ResponseWriter)) {
			if err := s.setReady(r.Context(), app.DeepCopy(), corev1.ConditionFalse); err != nil {
				t.Error(err)
			}
			forward(w)
		}
	})
	return app
}

func (s *scene) setReady(ctx context.Context, pod *corev1.Pod, ready corev1.ConditionStatus) error {
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	for i := range pod.Status.Conditions {
		if condition := &pod.Status.Conditions[i]; condition.Type == corev1.PodReady {
			condition.Status = ready
		}
	}
	return s.Client.Status().Update(ctx, pod)
}

// canaryFails lets the new node pod never become ready. Another change is tried where the last one failed.
func (s *scene) canaryFails(t *testing.T) {
	env.HoldReadiness(t, s.Cluster, predecessors.NodeAccount, "", s.workers[0])
	r := s.record(t)
	s.change(t)
	s.says(t, nodes.TryingCanary, "nodes keep their old node pod")
	node := r.seen().removals[0].node
	canary := s.plugin(t, node)
	canary.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "csi-driver", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}},
	}}
	env.Must(t, s.Client.Status().Update(t.Context(), canary))
	const degraded = "AWSEFSDriverNodeServiceControllerDegraded"
	env.Eventually(t, "the failure is reported", func() error {
		return s.Says(t.Context(), driverName, degraded, "True/CanaryFailed", node, "ImagePullBackOff", canary.Name)
	})
	env.Quiet(t, s.operator)
	if got := r.replaced(); got != 1 {
		t.Errorf("%d pods were replaced, want one", got)
	}
	s.change(t)
	env.Eventually(t, "the next one is tried on the same node", func() error {
		if removals := r.seen().removals; len(removals) != 2 || removals[1].node != node {
			return fmt.Errorf("%+v", removals)
		}
		if pod := s.plugin(t, node); pod.Labels["pod-template-generation"] != s.number(t) {
			return errors.New("the new pod is not there")
		}
		return nil
	})
	env.ReleaseReadiness(t, s.Cluster, env.OperatorNamespace, daemonSet)
	env.Eventually(t, "the roll-out ends", s.settled)
	r.check(t)
}

// hasNew checks that the node pod of a node has the newest template and is ready.
func (s *scene) hasNew(t *testing.T, node string) error {
	t.Helper()
	pod := s.plugin(t, node)
	if number := s.number(t); pod.Labels["pod-template-generation"] != number || !env.IsReady(pod) {
		return fmt.Errorf("pod %s has template %s, want %s", pod.Name, pod.Labels["pod-template-generation"], number)
	}
	return nil
}

func nodeOf(name string) *corev1.Node {
	node := &corev1.Node{}
	node.Name = name
	return node
}

func podOf(name string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = project, name
	return pod
}
