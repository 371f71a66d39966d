package nodes

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// Lacking says what new node pods still lack. It returns an empty string if they lack nothing. While they lack something, the operator must not
// delete node pods, because a new pod would be the same as before, or would not start.
func Lacking(changes apply.ChangeSet, hold string, daemonSet *appsv1.DaemonSet) string {
	needed := []string{"DaemonSet", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "CSIDriver"}
	for _, change := range changes.With(apply.Failed, apply.Terminating) {
		if slices.Contains(needed, change.Subject.Kind) && !pullsImages(daemonSet, change.Subject) {
			what := "failed"
			if change.Action == apply.Terminating {
				what = "is being deleted"
			}
			return fmt.Sprintf("the new node pods need %s, which %s", change.Subject, what)
		}
	}
	switch {
	case hold != "":
		return hold
	case daemonSet == nil || daemonSet.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType ||
		daemonSet.Status.ObservedGeneration < daemonSet.Generation:
		return "waiting for Kubernetes to observe the changed DaemonSet"
	default:
		return ""
	}
}

// pullsImages reports whether an object is the DaemonSet whose pods pull images. New node pods can start even if the operator could not apply this
// DaemonSet.
func pullsImages(daemonSet *appsv1.DaemonSet, subject apply.Subject) bool {
	return daemonSet != nil && subject.Kind == "DaemonSet" && subject.Name == driver.ImagesOf(daemonSet.Name)
}
