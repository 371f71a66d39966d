package driver

import (
	"errors"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Derived is a Secret in the driver's namespace. The operator computes its content from other objects, because the driver reads all configuration
// from one file. The inputs are ConfigMaps, all Secrets of Driver.Credentials and, if requested, facts of the cloud and the configuration of the
// cluster.
type Derived struct {
	// Name is the name of the Secret.
	Name string
	// Workloads are the workloads that mount the Secret. The operator creates these workloads only when the Secret exists. A change of the Secret
	// restarts their pods.
	Workloads []Workload
	// ConfigMaps have the cloud configuration of the cluster. These ConfigMaps are in other namespaces.
	ConfigMaps []DerivedConfigMap
	// FromCloud means that Config.Cloud is an input. FromCluster means that DerivedInputs.Cluster is an input.
	FromCloud, FromCluster bool
	// Build returns the content of the Secret. Build is pure. The operator reports an error of Build in a condition. So the error must say what is wrong
	// and what to do, and must not contain a value of a Secret. After an error, the previous content stays in effect. ErrCloudUnknown is not a failure:
	// the operator waits for the cloud.
	Build func(DerivedInputs) (map[string][]byte, error)
}

// ErrCloudUnknown is the error of Derived.Build while the content depends on an answer that the cloud has not given yet.
var ErrCloudUnknown = errors.New("the cloud has not answered yet")

// DerivedConfigMap is a ConfigMap that a Derived depends on.
type DerivedConfigMap struct {
	client.ObjectKey
	// Optional means that the ConfigMap can be absent.
	Optional bool
}

// DerivedInputs are the inputs of a Derived.
type DerivedInputs struct {
	// ConfigMaps maps the name of a ConfigMap to its data. The data is nil if the ConfigMap does not exist.
	ConfigMaps map[string]map[string]string
	// Cloud has the facts of the cloud. It is empty unless Derived.FromCloud is true.
	Cloud CloudFacts
	// Cluster is the cluster's configuration. It is empty unless Derived.FromCluster is true.
	Cluster DerivedCluster
	// Previous is the present content of the Secret. It is nil if the Secret does not exist.
	Previous map[string][]byte
	// Secrets maps the names of the Secrets of Driver.Credentials to their data.
	Secrets map[string]map[string][]byte
}

// DerivedCluster is the part of a Config on which a Derived can depend.
type DerivedCluster struct {
	InfrastructureID string
	VSphere          *configv1.VSpherePlatformSpec
	DriverConfig     operatorv1.CSIDriverConfigSpec
}

// DerivedCluster returns the part of the Config on which a Derived can depend.
func (c Config) DerivedCluster() DerivedCluster {
	return DerivedCluster{InfrastructureID: c.InfrastructureID, VSphere: c.VSphere, DriverConfig: c.Spec.DriverConfig}
}

// Secret returns the Secret's object without content.
func (d Derived) Secret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.Name},
		Type:       corev1.SecretTypeOpaque,
	}
}

// IsDerived reports whether an object is the Secret of Driver.Derived.
func (d Driver) IsDerived(object client.Object) bool {
	_, isSecret := object.(*corev1.Secret)
	return isSecret && d.Derived != nil && object.GetName() == d.Derived.Name
}
