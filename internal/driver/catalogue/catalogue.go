// Package catalogue lists the CSI drivers that a cluster gets because of its platform, and renders the objects of their operators.
//
// The cluster-storage-operator, the manifests of the release and the tests use this data. Rendering is pure.
package catalogue

import (
	"cmp"

	configv1 "github.com/openshift/api/config/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Operator is the name of the program that starts the operators of drivers. The same name is the field manager, and the value of our label.
	Operator = "cluster-storage-operator"
	// OperatorNamespace is the namespace of that program.
	OperatorNamespace = "openshift-cluster-storage-operator"
	// Namespace is the namespace of drivers and their operators.
	Namespace = "openshift-cluster-csi-drivers"
)

// Entry is a CSI driver with its operator.
type Entry struct {
	// Name is the CSI name of the driver, and the name of its ClusterCSIDriver.
	Name string
	// Title is the display name, for instance "AWS EBS".
	Title string
	// Condition is the beginning of the types of the driver's conditions in Storage, for instance "AWSEBS".
	Condition string
	// Platform is the platform whose clusters get the driver.
	Platform configv1.PlatformType
	// Gate, if set, is a feature gate that must be on. An entry for a driver of this repository must not have a gate.
	Gate configv1.FeatureGateName
	// Unfit, if set, says why a cluster of the platform does not get the driver. It returns an empty text if the cluster gets the driver. Unfit can only
	// prevent an installation: no program removes an installed driver because of Unfit.
	Unfit func(infrastructure configv1.InfrastructureStatus) string
	// MayBeDisabled means that the operator can decide not to install the driver. The operator then reports a condition …Disabled.
	MayBeDisabled bool
	// Operator is the name of the operator, of its Deployment and of its ServiceAccount. The names of its other objects begin with this name.
	Operator string
	// Builtin means that the operator is csi-driver-operator of this repository. All other operators are External, and start as OpenShift's operators
	// do.
	Builtin bool
	// Image is the name of a variable in the environment of the cluster-storage-operator. The variable's value is the image of the driver's operator.
	Image string
	// Images maps variables in the environment of the driver's operator to variables in the environment of the cluster-storage-operator.
	Images map[string]string
	// Cloud means that the operator itself calls the cloud.
	Cloud bool
	// Bindings give the operator further RBAC. Each binding is for one namespace. The operator also has cluster-wide RBAC.
	Bindings []Binding
	// Secrets are the Secrets that the cloud-credential-operator makes for the driver.
	Secrets []Secret
	// Workloads are the Deployments and DaemonSets of the driver. The cluster-storage-operator deletes them when it removes the driver, if the driver's
	// operator has not already deleted them.
	Workloads []Workload
	// Namespace, if set, is the namespace of the driver. The cluster-storage-operator creates the namespace, and keeps it after the removal of the
	// driver. If Namespace is empty, the driver uses the namespace of its operator.
	Namespace string
	// Made are the ClusterRoles and ClusterRoleBindings that an External operator creates for its driver.
	Made Made
	// Predecessor, if set, is the operator of this driver that OLM installed in OpenShift 4.5.
	Predecessor *Predecessor
}

// Binding gives an operator a ClusterRole in one namespace.
type Binding struct {
	Namespace string
	// Role is the end of the ClusterRole's name, after the operator's name. The end of the RoleBinding's name is Role and "binding".
	Role string
	// Rules, if set, are the rules of the ClusterRole. If Rules is empty, the ClusterRole has what an operator needs in its driver's namespace.
	Rules []rbacv1.PolicyRule
}

// Account is a ServiceAccount.
type Account struct {
	Namespace, Name string
}

// Secret names a Secret with credentials.
type Secret struct {
	Namespace, Name string
}

// Workload is a Deployment or a DaemonSet.
type Workload struct {
	Kind, Namespace, Name string
}

// Predecessor is an operator of the same driver that OLM installed.
type Predecessor struct {
	// Package is the package of the predecessor's Subscription. The names of the predecessor's ClusterServiceVersions begin with the name of the
	// package. Deployment is the name of the predecessor's Deployment.
	Package, Deployment string
	// Configuration is the kind of the predecessor's one custom resource, named "cluster". The finalizer of this resource would remove the driver.
	Configuration schema.GroupVersionKind
	// Resource is the plural of Configuration's kind, in lower case.
	Resource string
	// Namespace is the namespace of the predecessor's driver.
	Namespace string
}

// ClusterRole returns the name of the ClusterRole with the operator's cluster-wide RBAC.
func (e Entry) ClusterRole() string { return e.Operator + "-clusterrole" }

// Moves reports whether the predecessor ran its driver in another namespace. Our operator migrates the driver from that namespace.
func (e Entry) Moves() bool {
	return e.Builtin && e.Predecessor != nil && e.Predecessor.Namespace != cmp.Or(e.Namespace, Namespace)
}
