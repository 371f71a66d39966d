package rollout

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/test/env"
)

// newNodes lets nodes join with the driver's taint, as from an autoscaler. The operator removes the taint from each node after the node's registration,
// with one request for each node, and keeps other taints. It writes no node that joins without the taint.
func (s *scene) newNodes(t *testing.T) {
	joining := 12
	if env.IsSoak(t) {
		joining = 100
	}
	mark, err := s.Audit.Now()
	env.Must(t, err)
	other := corev1.Taint{Key: "example.com/dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}
	ours := func(effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: awsefs.Driver().StartupTaint, Effect: effect}
	}
	names := s.join(t, joining, func(i int) []corev1.Taint {
		// Taints are in any order, and some nodes have both effects.
		return [][]corev1.Taint{
			{ours(corev1.TaintEffectNoExecute), other},
			{other, ours(corev1.TaintEffectNoSchedule)},
			{ours(corev1.TaintEffectNoExecute), other, ours(corev1.TaintEffectNoSchedule)},
		}[i%3]
	})
	env.Eventually(t, "the taint is gone from all nodes", func() error { return s.taintsAre(t, names, other) })
	env.Eventually(t, "all nodes are registered", func() error { return s.registered(t, names) })
	requests, err := s.Audit.Since(mark, env.OperatorUser, "stand-ins")
	env.Must(t, err)
	registration, patches := map[string]int{}, map[string][]int{}
	for i, request := range requests {
		switch {
		case request.Object.Resource == "csinodes" && request.Verb == "update" && request.Response.Code == http.StatusOK:
			registration[request.Object.Name] = i
		case request.Object.Resource == "nodes" && request.User.Username == env.OperatorUser && request.IsWrite():
			patches[request.Object.Name] = append(patches[request.Object.Name], i)
			if request.Verb != "patch" || request.Response.Code != http.StatusOK {
				t.Errorf("the operator sent %s", request)
			}
		}
	}
	for _, name := range names {
		if len(patches[name]) != 1 || patches[name][0] < registration[name] {
			t.Errorf("node %s: %d requests, at %v, and the registration at %d", name, len(patches[name]), patches[name], registration[name])
		}
		delete(patches, name)
	}
	if len(patches) > 0 {
		t.Errorf("the operator also wrote nodes without the taint: %v", patches)
	}
}

// join creates nodes with taints. Their CSINodes appear with the driver when their node pods are ready.
func (s *scene) join(t *testing.T, joining int, taints func(i int) []corev1.Taint) (names []string) {
	t.Helper()
	like := &corev1.Node{}
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKey{Name: s.workers[0]}, like))
	for i := range joining {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("joined-%d", i), Labels: like.DeepCopy().Labels},
			Spec:       corev1.NodeSpec{ProviderID: fmt.Sprintf("%s-joined-%d", like.Spec.ProviderID, i), Taints: taints(i)},
			Status:     corev1.NodeStatus{Capacity: like.Status.Capacity, Allocatable: like.Status.Allocatable, NodeInfo: like.Status.NodeInfo},
		}
		node.Labels[corev1.LabelHostname] = node.Name
		env.Must(t, s.Client.Create(t.Context(), node))
		names = append(names, node.Name)
	}
	return names
}

// taintsAre checks that nodes have these taints, besides those of Kubernetes.
func (s *scene) taintsAre(t *testing.T, names []string, want ...corev1.Taint) error {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := s.Client.List(t.Context(), nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		have := slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
		if diff := cmp.Diff(want, have); slices.Contains(names, node.Name) && diff != "" {
			return fmt.Errorf("taints of %s (-want +got):\n%s", node.Name, diff)
		}
	}
	return nil
}

// registered checks that the CSINodes of all these nodes have the driver.
func (s *scene) registered(t *testing.T, names []string) error {
	t.Helper()
	for _, name := range names {
		node := &storagev1.CSINode{}
		if err := s.Client.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		if !slices.ContainsFunc(node.Spec.Drivers, func(one storagev1.CSINodeDriver) bool { return one.Name == driverName }) {
			return fmt.Errorf("node %s is not registered", name)
		}
	}
	return nil
}
