package clustercsidriver

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// leaveTo says once that an older copy does the work. The status is for that one to write.
func (r *Reconciler) leaveTo(ctx context.Context, cr *operatorv1.ClusterCSIDriver, older *appsv1.Deployment) {
	r.forget()
	key := string(cr.UID) + string(older.UID)
	if r.leftTo == key {
		return
	}
	r.leftTo = key
	message := fmt.Sprintf("Deployment %s/%s, a copy of this operator that was installed before, operates driver %s. The copy in namespace %s "+
		"waits for its end: uninstall one of them", older.Namespace, older.Name, r.Driver.Name, r.Namespace)
	ctrl.LoggerFrom(ctx).Info(message)
	r.Events.Eventf(cr, nil, corev1.EventTypeWarning, eventAnotherCopy, "Reconcile", "%s", message)
}
