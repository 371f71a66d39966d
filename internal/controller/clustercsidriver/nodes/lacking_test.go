package nodes

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// ourNodes is our DaemonSet while the operator replaces its pods.
func ourNodes() *appsv1.DaemonSet {
	daemonSet := &appsv1.DaemonSet{}
	daemonSet.Generation, daemonSet.Status.ObservedGeneration, daemonSet.Status.DesiredNumberScheduled = 2, 2, 3
	daemonSet.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	return daemonSet
}

func changed(action apply.Action, kind, name string) apply.Change {
	return apply.Change{Action: action, Subject: apply.Subject{
		GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: kind}, ObjectKey: client.ObjectKey{Namespace: "here", Name: name},
	}}
}

// A pod that is deleted too early would come back as it was, or not at all.
func TestWhatNewNodePodsNeedIsThereFirst(t *testing.T) {
	const unseen = "waiting for Kubernetes to observe the changed DaemonSet"
	late, rolling := ourNodes(), ourNodes()
	late.Status.ObservedGeneration = 1
	rolling.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	for name, tc := range map[string]struct {
		changes   apply.ChangeSet
		hold      string
		daemonSet *appsv1.DaemonSet
		want      string
	}{
		"all is there":             {apply.ChangeSet{changed(apply.Configured, "DaemonSet", "efs-csi-node")}, "", ourNodes(), ""},
		"no DaemonSet":             {nil, "", nil, unseen},
		"one that nobody has seen": {nil, "", late, unseen},
		"one that replaces pods":   {nil, "", rolling, unseen},
		"node pods are held":       {nil, "waiting for Secret a/b", ourNodes(), "waiting for Secret a/b"},
		"an account failed": {
			apply.ChangeSet{changed(apply.Failed, "ServiceAccount", "sa")}, "", ourNodes(),
			"the new node pods need ServiceAccount here/sa, which failed",
		},
		"a CSIDriver is made anew": {
			apply.ChangeSet{changed(apply.Terminating, "CSIDriver", "efs.csi.aws.com")}, "", ourNodes(),
			"the new node pods need CSIDriver here/efs.csi.aws.com, which is being deleted",
		},
		"something else failed": {apply.ChangeSet{changed(apply.Failed, "Service", "s")}, "", ourNodes(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Lacking(tc.changes, tc.hold, tc.daemonSet); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
