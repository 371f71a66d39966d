package clustercsidriver

import (
	"context"
	"fmt"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// requiresDriver reports whether the CSIDriver must tell the scheduler to place pods with volumes of the driver only on nodes that have the driver.
// Result "problem" says why driver.SchedulingAnnotation has no effect.
//
// By default, only drivers that attach volumes require this, because only such drivers limit the number of volumes on a node. If a driver has no
// limit, the scheduler does not try a pod again when the driver appears in the CSINode. So the pod can wait for up to five minutes (kubernetes
// v1.36.3 and v1.37.0, pkg/scheduler/framework/plugins/nodevolumelimits/csi.go isSchedulableAfterCSINodeUpdated).
func (r *Reconciler) requiresDriver(
	ctx context.Context, cr *operatorv1.ClusterCSIDriver, gates map[string]bool,
) (required bool, problem string, err error) {
	annotation, current := cr.Annotations[driver.SchedulingAnnotation], false
	if annotation != "" && driver.Boolean(annotation) != nil {
		live := &storagev1.CSIDriver{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: r.Driver.Name}, live); client.IgnoreNotFound(err) != nil {
			return false, "", fmt.Errorf("read CSIDriver %s: %w", r.Driver.Name, err)
		}
		field := live.Spec.PreventPodSchedulingIfMissing
		current = field != nil && *field
	}
	required, problem = driver.RequiresDriver(annotation, gates[driver.SchedulingGate] && r.Driver.Attaches(), r.KubernetesMinor, current)
	return required, problem, nil
}

// withDropped adds a problem if the administrator has set the annotation, but the API server drops driver.SchedulingField.
func withDropped(problems []string, cr *operatorv1.ClusterCSIDriver, changes apply.ChangeSet) []string {
	isDropped := func(change apply.Change) bool {
		return change.Subject.Kind == "CSIDriver" && slices.Contains(change.Dropped, driver.SchedulingField)
	}
	if cr.Annotations[driver.SchedulingAnnotation] != "true" || !slices.ContainsFunc(changes, isDropped) {
		return problems
	}
	return append(slices.Clone(problems), fmt.Sprintf("annotation %s=%q of this ClusterCSIDriver has no effect: the API server drops %s of the "+
		"CSIDriver, because its feature gate %s is off: enable the gate, or remove the annotation",
		driver.SchedulingAnnotation, "true", driver.SchedulingField, driver.SchedulingGate))
}
