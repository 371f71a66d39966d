package driver

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Derived is a Secret in the operator's namespace that follows from other objects: pods mount it where the driver wants in one file what the
// cluster has in several places. Its inputs are a ConfigMap and all Secrets of Driver.Credentials.
type Derived struct {
	// Name is that of the Secret.
	Name string
	// Workloads mount it: they are restarted when its content changes, and not started before there is any.
	Workloads []Workload
	// ConfigMap is where the cluster keeps what it knows of the cloud.
	ConfigMap client.ObjectKey
	// Build makes the content. It is pure. An error is reported as it is and must tell no value of a Secret: it says what is wrong, and what to
	// do. Pods then go on with the content that there was.
	Build func(DerivedInputs) (map[string][]byte, error)
}

// DerivedInputs is what a Derived is made of.
type DerivedInputs struct {
	// Config is the content of the ConfigMap.
	Config map[string]string
	// Secrets are the contents of the Secrets of Driver.Credentials, by name.
	Secrets map[string]map[string][]byte
}

// Secret is the object without content.
func (d Derived) Secret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.Name},
		Type:       corev1.SecretTypeOpaque,
	}
}

// IsDerived tells whether an object is the Secret of Driver.Derived.
func (d Driver) IsDerived(object client.Object) bool {
	_, isSecret := object.(*corev1.Secret)
	return isSecret && d.Derived != nil && object.GetName() == d.Derived.Name
}
