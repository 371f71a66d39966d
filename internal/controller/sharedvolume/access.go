package sharedvolume

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/efs"
)

// AllowedAnnotation on a Namespace limits its SharedVolumes to a list, separated by commas: "fs-ID" for all access points
// of a file system, "fs-ID/fsap-ID" for one, "*" for everything. An empty list allows nothing.
const AllowedAnnotation = "aws-efs.managed.openshift.io/allowed-shares"

// limits are what a namespace may use. The zero value limits nothing.
type limits struct {
	namespace string
	// list counts if the namespace is listed. Closed means that namespaces without a list may use nothing.
	list           string
	listed, closed bool
}

// restricted reports whether somebody limits the namespace.
func (l limits) restricted() bool { return l.listed || l.closed }

// denied says why the namespace may not use a share, and what to do; empty if it may.
func (l limits) denied(wanted efs.Share) string {
	switch {
	case l.listed && !wanted.ListedIn(l.list):
		return fmt.Sprintf("namespace %s may not use access point %s of file system %s: ask an administrator of the cluster to add it to "+
			"the annotation %s of the namespace", l.namespace, wanted.AccessPoint, wanted.FileSystem, AllowedAnnotation)
	case !l.listed && l.closed:
		return fmt.Sprintf("namespace %s may not use any file system: ask an administrator of the cluster to list %s/%s in the annotation %s "+
			"of the namespace", l.namespace, wanted.FileSystem, wanted.AccessPoint, AllowedAnnotation)
	default:
		return ""
	}
}

// limits reads what a namespace may use. The API server has asked the same, but perhaps before there was a limit.
func (r *Reconciler) limits(ctx context.Context, name string) (limits, error) {
	namespace := namespaceMetadata()
	there, err := get(ctx, r.Client, client.ObjectKey{Name: name}, namespace, shared)
	if err == nil && !there {
		err = errBehind
	}
	if err != nil {
		return limits{}, err
	}
	found := limits{namespace: name}
	if found.list, found.listed = namespace.Annotations[AllowedAnnotation]; found.listed {
		return found, nil
	}
	found.closed, err = r.unlistedClosed(ctx)
	return found, err
}

// unlistedClosed reports whether namespaces without a list may use nothing: the API server and the operator say the same.
func (r *Reconciler) unlistedClosed(ctx context.Context) (bool, error) {
	if !r.Policies {
		cr := &operatorv1.ClusterCSIDriver{}
		_, err := get(ctx, r.Client, client.ObjectKey{Name: efs.DriverName}, cr, shared)
		return isClosed(cr.Annotations, unlistedAllow), err
	}
	decided := &admissionv1.ValidatingAdmissionPolicy{}
	there, err := get(ctx, r.Client, client.ObjectKey{Name: crdName}, decided, shared)
	switch {
	case err != nil:
		return false, err
	case !there || decided.Annotations[DefaultAnnotation] == "":
		return false, fmt.Errorf("what namespaces without a list may use is not decided yet: waiting for ValidatingAdmissionPolicy %s", crdName)
	default:
		return get(ctx, r.Client, client.ObjectKey{Name: unlistedPolicy}, &admissionv1.ValidatingAdmissionPolicy{}, shared)
	}
}

// namespaceMetadata is a Namespace of which only the metadata is held.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}
