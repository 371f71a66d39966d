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

	"github.com/csi-operators/csi-operators/internal/kube/informer"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The next minor version of Kubernetes mounts volumes with the pod's SELinux label, if the driver supports that. In that version, pods with different
// labels can't share a volume on a node. The kube-controller-manager detects such pods, and reports them in a ConfigMap. The names here are
// OpenShift's names (cluster-storage-operator bb8d2fd1, pkg/operator/selinuxmountreadiness/controller.go).
const (
	selinuxReadiness = "SELinuxMountGAReadinessController"
	// selinuxReason is the reason that telemetry and tools read.
	selinuxReason = "SELinuxMountIncompatibleWorkloads"
	// conflictsKey is a key of that ConfigMap. Its value is True if pods with different labels share a volume.
	conflictsKey = "conflictsPresent"
	// conflictsMetric has a series for each pod that shares a volume with a pod that has another label.
	conflictsMetric = "selinux_warning_controller_selinux_volume_conflict"
)

func conflictsName() client.ObjectKey {
	return client.ObjectKey{Namespace: "openshift-config", Name: "selinux-conflicts"}
}

// NewConflicts returns a cache of the ConfigMap about SELinux conflicts. The manager's cache can't contain this ConfigMap, because that cache selects
// another ConfigMap in the same namespace.
func NewConflicts(manager ctrl.Manager) (cache.Cache, error) {
	name := conflictsName()
	return informer.NewCache(manager, "ConfigMap "+name.String(), map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
		Transform:  cache.TransformStripManagedFields(),
		Namespaces: map[string]cache.Config{name.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", name.Name)}},
	}})
}

// hasConflicts reports whether some running pods would not start in the next version. It returns false if the kube-controller-manager has not
// reported such pods.
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

// selinuxCondition blocks the update to the next minor version if running pods would not start in that version.
func selinuxCondition(w *seen) operatorv1.OperatorCondition {
	const kind = selinuxReadiness + status.Upgradeable
	if !w.conflicts {
		return status.Condition(kind, true, "", "")
	}
	return status.Condition(kind, false, selinuxReason, "pods with different SELinux labels share a volume: in the next minor version, these pods "+
		"can't all start on one node. Metric "+conflictsMetric+" names them, and alert SELinuxMountGAReadinessWorkloadsDetected says what to do")
}
