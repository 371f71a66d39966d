package clustercsidriver

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// yieldTo reports once that an older copy of this operator manages the driver. Only the older copy writes the status and exports metrics.
func (r *Reconciler) yieldTo(ctx context.Context, cr *operatorv1.ClusterCSIDriver, older *appsv1.Deployment) {
	r.reset()
	r.reporter.metrics.reset()
	before := r.yieldedTo
	if r.yieldedTo = string(cr.UID) + string(older.UID); r.yieldedTo == before {
		return
	}
	message := fmt.Sprintf("Two copies of this operator are installed. Deployment %s/%s manages driver %s; the copy in namespace %s stays idle. "+
		"Uninstall one of them", older.Namespace, older.Name, r.Driver.Name, r.Namespace)
	ctrl.LoggerFrom(ctx).Info(message)
	r.Events.Eventf(cr, nil, corev1.EventTypeWarning, eventAnotherCopy, "Reconcile", "%s", message)
}
