package nodes

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// Lacking says what is not there yet that new node pods need; empty if nothing is. A pod that is deleted before that would come
// back as it was, or not at all.
func Lacking(changes apply.ChangeSet, hold string, daemonSet *appsv1.DaemonSet) string {
	needed := []string{"DaemonSet", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "CSIDriver"}
	for _, change := range changes.With(apply.Failed, apply.Terminating) {
		if slices.Contains(needed, change.Subject.Kind) {
			what := "failed"
			if change.Action == apply.Terminating {
				what = "is being deleted"
			}
			return fmt.Sprintf("the new ones need %s, which %s", change.Subject, what)
		}
	}
	switch {
	case hold != "":
		return hold
	case daemonSet == nil || daemonSet.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType ||
		daemonSet.Status.ObservedGeneration < daemonSet.Generation:
		return "waiting for Kubernetes to see the changed DaemonSet"
	default:
		return ""
	}
}
