package driver

import (
	"errors"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Derived is a Secret in the driver's namespace that follows from other objects: pods mount it where the driver wants in one file what the
// cluster has in several places. Its inputs are ConfigMaps, all Secrets of Driver.Credentials and, if asked for, what the cloud has answered.
type Derived struct {
	// Name is that of the Secret.
	Name string
	// Workloads mount it: they are restarted when its content changes, and not started before there is any.
	Workloads []Workload
	// ConfigMaps are where the cluster keeps what it knows of the cloud; each is in another namespace.
	ConfigMaps []DerivedConfigMap
	// FromCloud says that Config.Cloud is an input, FromCluster that DerivedInputs.Cluster is.
	FromCloud, FromCluster bool
	// Build makes the content. It is pure. An error is reported as it is and must tell no value of a Secret: it says what is wrong, and what to
	// do. Pods then go on with the content that there was. ErrCloudUnknown only waits.
	Build func(DerivedInputs) (map[string][]byte, error)
}

// ErrCloudUnknown is what Derived.Build returns where the content depends on what the cloud has not answered yet.
var ErrCloudUnknown = errors.New("the cloud has not answered yet")

// DerivedConfigMap is a ConfigMap of which a Derived is made.
type DerivedConfigMap struct {
	client.ObjectKey
	// Optional says that it need not be there.
	Optional bool
}

// DerivedInputs is what a Derived is made of.
type DerivedInputs struct {
	// ConfigMaps are the contents of the ConfigMaps, by name; nil for one that is not there.
	ConfigMaps map[string]map[string]string
	// Cloud is what the cloud has answered, if Derived.FromCloud.
	Cloud CloudFacts
	// Cluster is what the cluster's configuration says, if Derived.FromCluster.
	Cluster DerivedCluster
	// Previous is the content that the operator made last; nil if it is not there.
	Previous map[string][]byte
	// Secrets are the contents of the Secrets of Driver.Credentials, by name.
	Secrets map[string]map[string][]byte
}

// DerivedCluster is the part of a Config of which a Derived may be made.
type DerivedCluster struct {
	InfrastructureID string
	VSphere          *configv1.VSpherePlatformSpec
	DriverConfig     operatorv1.CSIDriverConfigSpec
}

// DerivedCluster is the part of the Config of which a Derived may be made.
func (c Config) DerivedCluster() DerivedCluster {
	return DerivedCluster{InfrastructureID: c.InfrastructureID, VSphere: c.VSphere, DriverConfig: c.Spec.DriverConfig}
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
