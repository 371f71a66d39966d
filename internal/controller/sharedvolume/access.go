package sharedvolume

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// limits are the shares that a namespace may use.
type limits = efs.Limits

// limits reads the limits of a namespace. The admission policies also check SharedVolumes against the limits, but a SharedVolume may be older than
// the limits.
func (r *Reconciler) limits(ctx context.Context, name string) (limits, error) {
	namespace := namespaceMetadata()
	there, err := get(ctx, r.Client, client.ObjectKey{Name: name}, namespace, shared)
	if err == nil && !there {
		err = errBehind
	}
	if err != nil {
		return limits{}, err
	}
	found := limits{Namespace: name}
	if found.List, found.Listed = namespace.Annotations[AllowedAnnotation]; found.Listed {
		return found, nil
	}
	found.Closed, err = r.unlistedClosed(ctx)
	return found, err
}

// unlistedClosed reports whether namespaces without a list of allowed shares must not use any share. It reads the admission policies, so that the
// operator agrees with the API server.
func (r *Reconciler) unlistedClosed(ctx context.Context) (bool, error) {
	if !r.Policies {
		cr := &operatorv1.ClusterCSIDriver{}
		_, err := get(ctx, r.Client, client.ObjectKey{Name: efs.DriverName}, cr, shared)
		// An invalid value of the annotation means Deny here. In a cluster with admission policies, the last valid value would decide, because the unlisted
		// policy stores it. In a cluster without admission policies, nothing stores the last valid value.
		closed, _ := efs.IsClosed(cr.Annotations, unlistedAllow)
		return closed, err
	}
	decided := &admissionv1.ValidatingAdmissionPolicy{}
	there, err := get(ctx, r.Client, client.ObjectKey{Name: crdName}, decided, shared)
	switch {
	case err != nil:
		return false, err
	case !there || decided.Annotations[DefaultAnnotation] == "":
		return false, fmt.Errorf("it is not decided yet whether namespaces without a list may use shares: "+
			"waiting for ValidatingAdmissionPolicy %s", crdName)
	default:
		return get(ctx, r.Client, client.ObjectKey{Name: unlistedPolicy}, &admissionv1.ValidatingAdmissionPolicy{}, shared)
	}
}

// namespaceMetadata returns a Namespace for reads of metadata only.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}
