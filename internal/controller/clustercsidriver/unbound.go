package clustercsidriver

import (
	"context"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/status"
)

// provisionerAnnotation is what Kubernetes puts on a PVC that a driver is to provision.
const provisionerAnnotation = "volume.kubernetes.io/storage-provisioner"

// unbound remembers which PVCs wait because the driver may not keep a Secret for them. PVCs are not watched.
type unbound struct {
	message  string
	patience status.Patience
	next     time.Time
}

// mostReviews is for how many namespaces a look asks at most: tenants decide how many there are.
const mostReviews = 20

// addUnbound names such PVCs, if the cluster has a StorageClass for which the driver keeps Secrets. Without one it sends no request. A look that
// fails holds up nothing.
func (r *Reconciler) addUnbound(ctx context.Context, found *seen) error {
	classes, err := r.keepingClasses(ctx)
	if err != nil || len(classes) == 0 {
		r.memory.unbound = unbound{}
		return err
	}
	known := &r.memory.unbound
	if !r.Now().Before(known.next) {
		names, err := r.unboundPVCs(ctx, classes)
		switch {
		case err != nil:
			ctrl.LoggerFrom(ctx).Error(err, "PVCs that wait for a binding are not known")
		case len(names) > 0:
			known.message = fmt.Sprintf("PVCs wait because driver %s may not keep Secrets for them (%d): %s. %s", r.Driver.Name,
				len(names), status.Shorten(names), r.Driver.KeptSecrets.Advice)
		default:
			known.message = ""
		}
		// What tenants do makes no look come sooner.
		known.next = r.Now().Add(known.patience.Pause(r.Now(), ""))
	}
	found.unbound, found.again = known.message, status.MinRequeue(found.again, known.next.Sub(r.Now()))
	return nil
}

// keepingClasses are the StorageClasses for which the driver keeps Secrets, with the namespace where; empty is that of the PVC.
func (r *Reconciler) keepingClasses(ctx context.Context) (map[string]string, error) {
	if r.Driver.KeptSecrets == nil {
		return nil, nil
	}
	classes := &storagev1.StorageClassList{}
	if err := r.Client.List(ctx, classes); err != nil {
		return nil, fmt.Errorf("list StorageClasses: %w", err)
	}
	found := map[string]string{}
	for _, class := range classes.Items {
		if class.Provisioner != r.Driver.Name {
			continue
		}
		if namespace, keeps := r.Driver.KeptSecrets.Namespace(class.Parameters); keeps {
			found[class.Name] = namespace
		}
	}
	return found, nil
}

// unboundPVCs are the PVCs of these classes that the driver is to provision and can't, sorted.
func (r *Reconciler) unboundPVCs(ctx context.Context, classes map[string]string) ([]string, error) {
	pvcs := &corev1.PersistentVolumeClaimList{}
	if err := r.Live.List(ctx, pvcs); err != nil {
		return nil, fmt.Errorf("look for PVCs that wait: %w", err)
	}
	may := map[string]bool{}
	var names []string
	for _, pvc := range pvcs.Items {
		if pvc.Spec.StorageClassName == nil || pvc.Spec.DataSource != nil || pvc.Status.Phase != corev1.ClaimPending ||
			pvc.Annotations[provisionerAnnotation] != r.Driver.Name {
			continue
		}
		namespace, keeps := classes[*pvc.Spec.StorageClassName]
		if !keeps {
			continue
		}
		if namespace == "" {
			namespace = pvc.Namespace
		}
		if _, asked := may[namespace]; !asked && len(may) == mostReviews {
			continue
		} else if !asked {
			allowed, err := r.mayKeepSecrets(ctx, namespace)
			if err != nil {
				return nil, err
			}
			may[namespace] = allowed
		}
		if !may[namespace] {
			names = append(names, client.ObjectKeyFromObject(&pvc).String())
		}
	}
	slices.Sort(names)
	return names, nil
}

// mayKeepSecrets asks whether the driver's controller may create Secrets in a namespace.
func (r *Reconciler) mayKeepSecrets(ctx context.Context, namespace string) (bool, error) {
	user := "system:serviceaccount:" + r.Namespace + ":" + r.Driver.ControllerServiceAccount()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + r.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "secrets"},
	}}
	if err := r.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("ask whether %s may create Secrets in namespace %s: %w", user, namespace, err)
	}
	return review.Status.Allowed, nil
}
