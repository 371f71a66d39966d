package nodes

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Without outdated pods, nothing of the pods is read.
func TestWhatKubernetesHasCountedIsNotCountedAgain(t *testing.T) {
	o := operate("a", "b")
	o.in.DaemonSet.Status.UpdatedNumberScheduled = o.in.DaemonSet.Status.DesiredNumberScheduled
	o.deletes(t, 0, "")
	o.cluster.Reads = nil
	if made, err := o.Advance(t.Context(), o.in); made.Message != "" || made.Again != 0 || err != nil || len(o.cluster.Reads) > 0 {
		t.Errorf("%+v, error %v", made, err)
	}
	// A roll-out that is under way is seen to its end.
	o = operate("a")
	o.deletes(t, 0, "a")
	o.in.DaemonSet.Status.UpdatedNumberScheduled = o.in.DaemonSet.Status.DesiredNumberScheduled
	o.replaced(true, "a")
	o.deletes(t, time.Minute, "")
	if made := o.deletes(t, 2*time.Second, ""); !made.Ended {
		t.Errorf("%+v", made)
	}
}

func TestKubernetesTakesOverInTheMiddle(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	o.use("b")
	o.deletes(t, 0, "a")
	strategy := o.in.DaemonSet.Spec.UpdateStrategy
	o.in.DaemonSet.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType}
	o.in.Policy = driver.RollingUpdate
	if made := o.deletes(t, 2*time.Second, ""); made.Message != "" || made.Again != 0 {
		t.Errorf("it goes on beside Kubernetes: %+v", made)
	}
	// Back again, it goes on with what is left.
	o.in.DaemonSet.Spec.UpdateStrategy, o.in.Policy = strategy, driver.IdleFirst
	o.replaced(true, "a")
	o.deletes(t, 2*time.Second, "b")
}

func TestNodesComeAndGoInTheMiddle(t *testing.T) {
	o := operate("a", "b", "c")
	o.replaced(true, "c")
	o.deletes(t, 0, "a")
	// The node of the pod that was deleted leaves the cluster, and another one joins with a new pod.
	o.leave("a")
	o.collect("a")
	o.join("d")
	o.replaced(false, "d")
	// Its pod takes the place of one that may be unready: one of three.
	o.deletes(t, 2*time.Second, "")
	o.replaced(true, "d")
	// The pod of a may still come.
	o.deletes(t, 2*time.Second, "")
	o.deletes(t, startTime, "b")
	o.replaced(true, "b")
	o.deletes(t, 2*time.Second, "")
	if made := o.deletes(t, time.Minute, ""); len(made.Changes) > 0 {
		t.Errorf("%+v", made)
	}
}
