package watch

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

const (
	// RequestAnnotation is what the cloud-credential-operator puts on a Secret: the CredentialsRequest that it is made for.
	RequestAnnotation = "cloudcredential.openshift.io/credentials-request"
	// hasPolicy replaces a policy in memory.
	hasPolicy = "policy"
)

// HashSecret is a transformation of a cache: it replaces what a Secret holds by hashes. The operator only has to know
// whether it changes, and what is not in memory can't leak.
func HashSecret(object any) (any, error) {
	if secret, ok := object.(*corev1.Secret); ok {
		apply.HashData(secret)
		kept := map[string]string{RequestAnnotation: secret.Annotations[RequestAnnotation]}
		switch {
		case driver.Minted(secret):
			kept[driver.PolicyAnnotation] = hasPolicy
		case driver.PassedThrough(secret):
			kept[driver.PolicyAnnotation] = ""
		}
		secret.ManagedFields, secret.Annotations = nil, kept
	}
	return object, nil
}

// hashDerived keeps of the Secret that the operator makes what it needs to compare, hashed.
func hashDerived(object any) (any, error) {
	if secret, ok := object.(*corev1.Secret); ok {
		apply.HashData(secret)
		// What kubectl keeps there are the values themselves.
		delete(secret.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return object, nil
}

// CloudConfig is OpenShift's copy of the ConfigMap about the cloud that the Infrastructure names.
func CloudConfig() client.ObjectKey {
	return client.ObjectKey{Namespace: driver.ManagedNamespace, Name: "kube-cloud-config"}
}

// keepCloudCA is a transformation of a cache: what else there is about the cloud does not matter here.
func keepCloudCA(object any) (any, error) {
	if config, ok := object.(*corev1.ConfigMap); ok {
		config.Data = map[string]string{driver.CloudCAKey: config.Data[driver.CloudCAKey]}
	}
	return keepData(object)
}

// keepData is a transformation of a cache: only the content matters.
func keepData(object any) (any, error) {
	if config, ok := object.(*corev1.ConfigMap); ok {
		config.ObjectMeta = metav1.ObjectMeta{
			Namespace: config.Namespace, Name: config.Name, UID: config.UID, ResourceVersion: config.ResourceVersion,
		}
		config.BinaryData = nil
	}
	return object, nil
}
