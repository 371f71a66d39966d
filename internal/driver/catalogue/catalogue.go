// Package catalogue lists the CSI drivers that a cluster gets by its platform, and renders what their operators need.
//
// It is data: what the cluster-storage-operator starts, the manifests of the release and the tests all come from it. Rendering is pure.
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
	// OperatorNamespace is where it runs.
	OperatorNamespace = "openshift-cluster-storage-operator"
	// Namespace is where the operators of drivers run, and the drivers.
	Namespace = "openshift-cluster-csi-drivers"
)

// Entry is a CSI driver, and the operator that is started for it.
type Entry struct {
	// Name is the CSI name, which is also that of the ClusterCSIDriver.
	Name string
	// Title is what people call the driver, for instance "AWS EBS".
	Title string
	// Condition starts the types of the driver's conditions in Storage, for instance "AWSEBS".
	Condition string
	// Platform is where the driver runs.
	Platform configv1.PlatformType
	// Gate, if set, is a feature gate that must be enabled. A driver of this repository can have none.
	Gate configv1.FeatureGateName
	// Unfit, if set, says why a cluster of the platform does not get the driver; empty if it does. Once it is there, it stays.
	Unfit func(infrastructure configv1.InfrastructureStatus) string
	// MayBeDisabled says that the operator may find that there is nothing to drive, and reports a condition …Disabled.
	MayBeDisabled bool
	// Operator is the name of the operator: Deployment, ServiceAccount, and start of the names of its other objects.
	Operator string
	// Builtin says that the operator is csi-driver-operator of this repository. Others are started as those of OpenShift are.
	Builtin bool
	// Image is the variable of the cluster-storage-operator's environment with the operator's image.
	Image string
	// Images maps variables of the operator's environment to those of the cluster-storage-operator's.
	Images map[string]string
	// Cloud says that the operator itself talks to the cloud.
	Cloud bool
	// Bindings are the RBAC of the operator in namespaces, beside that everywhere.
	Bindings []Binding
	// Secrets are made by the cloud-credential-operator for the driver.
	Secrets []Secret
	// Workloads are the Deployments and DaemonSets of the driver, by which a driver that nobody wants any more is removed where its
	// operator can't do it.
	Workloads []Workload
	// Namespace, if set, is where the driver runs; else it runs where its operator does. It is made, and stays when the driver goes.
	Namespace string
	// Made are the roles and bindings without a namespace that an External operator makes for its driver.
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

// Moves tells whether the driver of the predecessor ran in another namespace than ours does, and is migrated from there by its operator.
func (e Entry) Moves() bool {
	return e.Builtin && e.Predecessor != nil && e.Predecessor.Namespace != cmp.Or(e.Namespace, Namespace)
}
