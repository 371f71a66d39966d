package clustercsidriver

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// An operator that was killed may leave pods that pull images. Whatever the next one finds, it can delete.
func TestPodsThatPullImagesCanBeRemoved(t *testing.T) {
	for mounts := range map[bool]bool{true: true, false: true} {
		d := disk()
		d.MountsInPods = mounts
		one := newTrip(t, d)
		if got := slices.Contains(one.applier.Inventory, nodes.ImagePods(here, d.DaemonSet)); got != mounts {
			t.Errorf("mounts in pods %t: the inventory has them: %t", mounts, got)
		}
	}
}

// A node gets its new node pod even if the pods that pull images can't be made.
func TestPodsThatPullImagesHoldNoNodePod(t *testing.T) {
	daemonSet := &appsv1.DaemonSet{}
	daemonSet.Name = "disk-node"
	daemonSet.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	for name, holds := range map[string]bool{"disk-node-images": false, "disk-node": true} {
		failed := apply.ChangeSet{changed(apply.Failed, "DaemonSet", here, name)}
		if got := nodes.Lacking(failed, "", daemonSet); (got != "") != holds {
			t.Errorf("%s failed: %q", name, got)
		}
	}
}
