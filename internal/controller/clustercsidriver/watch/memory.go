package watch

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

const (
	// RequestAnnotation is the cloud-credential-operator's annotation on a Secret. Its value is the name of the Secret's CredentialsRequest.
	RequestAnnotation = "cloudcredential.openshift.io/credentials-request"
	// hasPolicy is the cached value of each policy annotation whose real value is not empty. The operator only checks whether the annotation is empty.
	hasPolicy = "policy"
)

// HashSecret is a cache transform that replaces the values of a Secret by hashes. Hashes suffice to detect changes. The operator can't leak values
// that it does not have.
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

// hashDerived is a cache transform for the Secret of Driver.Derived. It hashes the values, but keeps the fields that the operator compares.
func hashDerived(object any) (any, error) {
	if secret, ok := object.(*corev1.Secret); ok {
		apply.HashData(secret)
		// kubectl stores the Secret's values in this annotation.
		delete(secret.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return object, nil
}

// CloudConfig returns the key of OpenShift's copy of the ConfigMap about the cloud. The Infrastructure names the original ConfigMap.
func CloudConfig() client.ObjectKey {
	return client.ObjectKey{Namespace: driver.ManagedNamespace, Name: "kube-cloud-config"}
}

// keepCloudCA is a cache transform that keeps only the cloud's CA.
func keepCloudCA(object any) (any, error) {
	if config, ok := object.(*corev1.ConfigMap); ok {
		config.Data = map[string]string{driver.CloudCAKey: config.Data[driver.CloudCAKey]}
	}
	return keepData(object)
}

// keepData is a cache transform that keeps only the data.
func keepData(object any) (any, error) {
	if config, ok := object.(*corev1.ConfigMap); ok {
		config.ObjectMeta = metav1.ObjectMeta{
			Namespace: config.Namespace, Name: config.Name, UID: config.UID, ResourceVersion: config.ResourceVersion,
		}
		config.BinaryData = nil
	}
	return object, nil
}
