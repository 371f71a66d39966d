package sharedvolume

import (
	"context"
	"fmt"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

const (
	// AllowedAnnotation on a Namespace limits its SharedVolumes to a list, separated by commas: "fs-ID" for all access points
	// of a file system, "fs-ID/fsap-ID" for one, "*" for everything. An empty list allows nothing.
	AllowedAnnotation = "aws-efs.managed.openshift.io/allowed-shares"
	// UnlistedAnnotation on the ClusterCSIDriver says what namespaces without a list may use: "Allow", the default, everything;
	// all else, such as "Deny", nothing.
	UnlistedAnnotation = "aws-efs.managed.openshift.io/unlisted-namespaces"

	unlistedAllow = "Allow"
)

// isListed tells whether a list allows a share. The policies say the same in CEL.
func isListed(list string, wanted share) bool {
	for entry := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(entry) {
		case "*", wanted.fileSystem, wanted.fileSystem + "/" + wanted.accessPoint:
			return true
		}
	}
	return false
}

// access tells whether the namespace is limited, and if the share is not among what it may use, why. The API server has
// asked the same, but perhaps before there was a limit.
func (r *Reconciler) access(ctx context.Context, owner *v1alpha1.SharedVolume) (restricted bool, denied string, err error) {
	namespace := namespaceMetadata()
	there, err := get(ctx, r.Client, client.ObjectKey{Name: owner.Namespace}, namespace)
	if err != nil {
		return false, "", err
	}
	if !there {
		return false, "", errBehind
	}
	wanted := shareIn(owner)
	list, limited := namespace.Annotations[AllowedAnnotation]
	switch {
	case limited && isListed(list, wanted):
		return true, "", nil
	case limited:
		return true, fmt.Sprintf("namespace %s may not use access point %s of file system %s: ask an administrator of the cluster to add it to "+
			"the annotation %s of the namespace", owner.Namespace, wanted.accessPoint, wanted.fileSystem, AllowedAnnotation), nil
	}
	closed, err := r.unlistedClosed(ctx)
	if err != nil || !closed {
		return false, "", err
	}
	return true, fmt.Sprintf("namespace %s may not use any file system: ask an administrator of the cluster to list %s/%s in the annotation %s "+
		"of the namespace", owner.Namespace, wanted.fileSystem, wanted.accessPoint, AllowedAnnotation), nil
}

// unlistedClosed tells whether namespaces without a list may use nothing. Without a ClusterCSIDriver that is as the policy
// has it, which outlives the driver.
func (r *Reconciler) unlistedClosed(ctx context.Context) (bool, error) {
	cr := &operatorv1.ClusterCSIDriver{}
	there, err := get(ctx, r.Client, client.ObjectKey{Name: DriverName}, cr)
	switch {
	case err != nil:
		return false, err
	case there:
		return isClosed(cr.Annotations), nil
	case !r.Policies:
		return false, nil
	default:
		return get(ctx, r.Client, client.ObjectKey{Name: unlistedPolicy}, &admissionv1.ValidatingAdmissionPolicy{})
	}
}

func isClosed(annotations map[string]string) bool {
	value, set := annotations[UnlistedAnnotation]
	return set && value != unlistedAllow
}

// namespaceMetadata is a Namespace of which only the metadata is held.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}
