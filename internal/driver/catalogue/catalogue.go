// Package catalogue lists the CSI drivers that a cluster gets by its platform, and renders what their operators need.
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
	// Operator is the program that starts the operators of drivers: field manager and label value.
	Operator = "cluster-storage-operator"
	// OperatorNamespace is its namespace.
	OperatorNamespace = "openshift-cluster-storage-operator"
	// Namespace is the namespace of drivers and their operators.
	Namespace = "openshift-cluster-csi-drivers"
)

// Entry is a CSI driver with its operator.
type Entry struct {
	// Name is the CSI name, which is also that of the ClusterCSIDriver.
	Name string
	// Title is the display name, for instance "AWS EBS".
	Title string
	// Condition starts the types of the driver's conditions in Storage, for instance "AWSEBS".
	Condition string
	// Platform is where the driver runs.
	Platform configv1.PlatformType
	// Gate, if set, is a feature gate that must be enabled. A driver of this repository can have none.
	Gate configv1.FeatureGateName
	// Unfit, if set, says why a cluster of the platform does not get the driver; empty if it does. An installed driver stays.
	Unfit func(infrastructure configv1.InfrastructureStatus) string
	// MayBeDisabled: the operator may decide not to install the driver, and reports a condition …Disabled.
	MayBeDisabled bool
	// Operator is the name of the operator: Deployment, ServiceAccount, and start of the names of its other objects.
	Operator string
	// Builtin: the operator is csi-driver-operator of this repository. Others are External, and start as OpenShift's operators do.
	Builtin bool
	// Image is the variable of the cluster-storage-operator's environment with the operator's image.
	Image string
	// Images maps variables of the operator's environment to those of the cluster-storage-operator's.
	Images map[string]string
	// Cloud: the operator itself calls the cloud.
	Cloud bool
	// Bindings give the operator RBAC in one namespace each, besides cluster-wide RBAC.
	Bindings []Binding
	// Secrets are the Secrets of the cloud-credential-operator for the driver.
	Secrets []Secret
	// Workloads identify the Deployments and DaemonSets of an abandoned driver, which has no operator to remove it.
	Workloads []Workload
	// Namespace, if set, is the driver's; else it uses its operator's. It is created, and stays after the removal of the driver.
	Namespace string
	// Made are the ClusterRoles and ClusterRoleBindings that an External operator creates for its driver.
	Made Made
	// Predecessor, if set, is the operator of this driver that OLM installed in OpenShift 4.5.
	Predecessor *Predecessor
}

// Binding gives an operator a ClusterRole in one namespace.
type Binding struct {
	Namespace string
	// Role ends the name of the ClusterRole, after that of the operator; the RoleBinding's ends with Role and "binding".
	Role string
	// Rules, if set, are those of the ClusterRole. Without them, it holds what an operator needs where its driver is.
	Rules []rbacv1.PolicyRule
}

// Account is a ServiceAccount.
type Account struct {
	Namespace, Name string
}

// Secret is one with credentials.
type Secret struct {
	Namespace, Name string
}

// Workload is a Deployment or a DaemonSet.
type Workload struct {
	Kind, Namespace, Name string
}

// Predecessor is an operator of the same driver that OLM installed.
type Predecessor struct {
	// Package is that of its Subscription, and starts the names of its ClusterServiceVersions. Deployment is that of its operator.
	Package, Deployment string
	// Configuration is the kind of its one custom resource, named "cluster". Its finalizer would remove the driver.
	Configuration schema.GroupVersionKind
	// Resource is the plural of that kind, in lower case.
	Resource string
	// Namespace is where its driver runs.
	Namespace string
}

// ClusterRole is the name of the ClusterRole with the operator's RBAC everywhere.
func (e Entry) ClusterRole() string { return e.Operator + "-clusterrole" }

// Moves reports whether the predecessor ran its driver in another namespace, from which our operator migrates it.
func (e Entry) Moves() bool {
	return e.Builtin && e.Predecessor != nil && e.Predecessor.Namespace != cmp.Or(e.Namespace, Namespace)
}
