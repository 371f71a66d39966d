package storage

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/follow"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The next Kubernetes mounts volumes with the SELinux label of the pod, as soon as the driver says that it can. Pods with different labels
// that share a volume on a node can't start then. The kube-controller-manager looks for such pods, and writes whether there are any into a
// ConfigMap. The names are those that OpenShift has (cluster-storage-operator bb8d2fd1, pkg/operator/selinuxmountreadiness/controller.go).
const (
	selinuxReadiness = "SELinuxMountGAReadinessController"
	// selinuxReason is the reason by which telemetry and tools know the condition.
	selinuxReason = "SELinuxMountIncompatibleWorkloads"
	// conflictsKey is True if there are such pods.
	conflictsKey = "conflictsPresent"
	// conflictsMetric has a series for each.
	conflictsMetric = "selinux_warning_controller_selinux_volume_conflict"
)

func conflictsName() client.ObjectKey {
	return client.ObjectKey{Namespace: "openshift-config", Name: "selinux-conflicts"}
}

// NewConflicts makes the cache of that one ConfigMap. The manager's own holds another one of the same namespace.
func NewConflicts(manager ctrl.Manager) (cache.Cache, error) {
	name := conflictsName()
	return follow.NewCache(manager, "ConfigMap "+name.String(), map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
		Transform:  cache.TransformStripManagedFields(),
		Namespaces: map[string]cache.Config{name.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", name.Name)}},
	}})
}

// hasConflicts reports whether there are pods that the next version would not start. Nobody who has not looked says so.
func (r *Reconciler) hasConflicts(ctx context.Context) (bool, error) {
	found := &corev1.ConfigMap{}
	err := r.Conflicts.Get(ctx, conflictsName(), found)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read ConfigMap %s: %w", conflictsName(), err)
	}
	return found.Data[conflictsKey] == string(operatorv1.ConditionTrue), nil
}

// selinuxCondition keeps the cluster from a minor version in which pods that run now would not start.
func selinuxCondition(w *seen) operatorv1.OperatorCondition {
	const kind = selinuxReadiness + status.Upgradeable
	if !w.conflicts {
		return status.Condition(kind, true, "", "")
	}
	return status.Condition(kind, false, selinuxReason, "pods share a volume and have different SELinux labels: in the next minor version, not all of "+
		"them would start on one node. Metric "+conflictsMetric+" names them, and alert SELinuxMountGAReadinessWorkloadsDetected says what to do")
}
