package nodes

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

func TestWithoutOutdatedPodsNothingIsAsked(t *testing.T) {
	o := operate("a", "b")
	o.replaced(true, "a", "b")
	for range 3 {
		if made := o.deletes(t, time.Minute, ""); made.Message != "" || made.Again != 0 {
			t.Errorf("%+v", made)
		}
	}
	want := []string{"list Pod here", "list Pod here", "list Pod here"}
	if diff := cmp.Diff(want, o.cluster.Reads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

// A template that was used before has a new number, but its pods are those that are wanted.
func TestARollbackReplacesOnlyWhatDiffers(t *testing.T) {
	o := operate("a", "b", "c")
	o.in.DaemonSet.Annotations[appsv1.DeprecatedTemplateGeneration] = "3"
	for _, object := range o.cluster.Objects {
		if of, isRevision := object.(*appsv1.ControllerRevision); isRevision && of.Name == "plugin-old" {
			of.Revision = 3
		}
	}
	o.replaced(true, "b")
	o.deletes(t, 0, "b")
}

func TestACanaryIsProvenBeforeOthersFollow(t *testing.T) {
	o := operate("a", "b", "c", "d")
	made := o.deletes(t, 0, "a")
	if made.Canary != "a" {
		t.Errorf("canary %q", made.Canary)
	}
	// Its pod has gone, then it starts, then it serves before its kubelet knows the driver.
	o.gone("a")
	o.deletes(t, 2*time.Second, "")
	o.replaced(false, "a")
	made = o.deletes(t, 2*time.Second, "")
	if made.Reason != TryingCanary || made.Failed != "" || made.Canary != "" {
		t.Errorf("%+v", made)
	}
	o.register("a", false)
	o.replaced(true, "a")
	made = o.deletes(t, canaryPatience, "")
	if made.Reason != TryingCanary {
		t.Errorf("%+v", made)
	}
	made = o.deletes(t, canaryPatience, "")
	if want := "CSINode does not list driver"; !strings.Contains(made.Failed, want) {
		t.Errorf("failed %q, want %q", made.Failed, want)
	}
	o.register("a", true)
	if made = o.deletes(t, 2*time.Second, "b"); made.Failed != "" || made.Reason != ReplacingPods {
		t.Errorf("%+v", made)
	}
}

func (o *operated) register(node string, known bool) {
	for _, object := range o.cluster.Objects {
		if found, isNode := object.(*storagev1.CSINode); isNode && found.Name == node {
			found.Spec.Drivers = nil
			if known {
				found.Spec.Drivers = []storagev1.CSINodeDriver{{Name: fleetDriver}}
			}
		}
	}
}

func TestACanaryFails(t *testing.T) {
	for name, tc := range map[string]struct {
		waiting string
		after   time.Duration
		failed  bool
	}{
		"it starts":            {"ContainerCreating", time.Minute, false},
		"it does not for long": {"ContainerCreating", canaryPatience, true},
		"it never will":        {"ImagePullBackOff", 2 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := operate("a", "b")
			o.deletes(t, 0, "a")
			o.replaced(false, "a")
			for _, object := range o.cluster.Objects {
				if pod, isPod := object.(*corev1.Pod); isPod && pod.Spec.NodeName == "a" {
					pod.Status.ContainerStatuses[0].State.Waiting.Reason = tc.waiting
				}
			}
			if made := o.deletes(t, tc.after, ""); (made.Failed != "") != tc.failed || tc.failed && !strings.Contains(made.Failed, tc.waiting) {
				t.Errorf("failed %q", made.Failed)
			}
		})
	}
}
