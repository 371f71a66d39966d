package clustercsidriver

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// leaveTo says once that an older copy does the work. That one writes the status, and alone has metrics.
func (r *Reconciler) leaveTo(ctx context.Context, cr *operatorv1.ClusterCSIDriver, older *appsv1.Deployment) {
	r.forget()
	r.reporter.metrics.reset()
	before := r.leftTo
	if r.leftTo = string(cr.UID) + string(older.UID); r.leftTo == before {
		return
	}
	message := fmt.Sprintf("Deployment %s/%s, a copy of this operator that was installed before, operates driver %s. The copy in namespace %s "+
		"waits for its end: uninstall one of them", older.Namespace, older.Name, r.Driver.Name, r.Namespace)
	ctrl.LoggerFrom(ctx).Info(message)
	r.Events.Eventf(cr, nil, corev1.EventTypeWarning, eventAnotherCopy, "Reconcile", "%s", message)
}
