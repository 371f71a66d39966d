package catalogue

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Made is the cluster-scoped RBAC that an External operator creates for its driver. To create this RBAC, the operator itself needs all rules of the
// ClusterRoles that it creates, and permission to bind the ClusterRoles of the release. To change this RBAC, the operator needs permission to write
// objects with these names. Each function below names its source.
type Made struct {
	// Roles are the ClusterRoles of the driver, by name. The operator's program compares their rules one by one, in this order.
	Roles map[string][]rbacv1.PolicyRule
	// Bindings maps the names of the driver's ClusterRoleBindings to the names of the ClusterRoles.
	Bindings map[string]string
	// Account is the ServiceAccount of the driver's controller, which has this RBAC.
	Account Account
}

// Bound returns the roles that the operator binds but does not create, sorted.
func (m Made) Bound() []string {
	var names []string
	for _, role := range m.Bindings {
		if _, own := m.Roles[role]; !own {
			names = append(names, role)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Names of the roles for sidecars that the release contains.
const (
	attacherRole    = "openshift-csi-main-attacher-role"
	provisionerRole = "openshift-csi-main-provisioner-role"
	resizerRole     = "openshift-csi-main-resizer-role"
	snapshotterRole = "openshift-csi-main-snapshotter-role"
	snapshotReader  = "openshift-csi-provisioner-volumesnapshot-reader-role"
	classReader     = "openshift-csi-resizer-storageclass-reader-role"
	// secretReader allows its holder to read every Secret by its name.
	secretReader = "openshift-csi-provisioner-configmap-and-secret-reader-role"
)

func tokenReviewer() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rule("authentication.k8s.io", "create", "tokenreviews")}
}

func privileged() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{"security.openshift.io"}, ResourceNames: []string{"privileged"},
		Resources: []string{"securitycontextconstraints"}, Verbs: []string{"use"},
	}}
}

// madeByIBMVPCBlock returns the RBAC that the operator of IBM VPC Block creates (ibm-vpc-block-csi-driver-operator e6d299f, assets/rbac).
func madeByIBMVPCBlock() Made {
	const proxy, node, labels = "ibm-vpc-block-kube-rbac-proxy-role", "ibm-vpc-block-privileged-role", "vpc-block-initcontainer-role"
	return Made{
		Roles: map[string][]rbacv1.PolicyRule{proxy: tokenReviewer(), node: privileged(), labels: {core("get list update", "nodes")}},
		Bindings: map[string]string{
			"ibm-vpc-block-csi-configmap-and-secret-reader-provisioner-binding": secretReader,
			"ibm-vpc-block-csi-volumesnapshot-reader-provisioner-binding":       snapshotReader,
			"ibm-vpc-block-kube-rbac-proxy-binding":                             proxy,
			"ibm-vpc-node-privileged-binding":                                   node,
			"vpc-block-initcontainer-binding":                                   labels,
			"vpc-block-main-attacher-binding":                                   attacherRole,
			"vpc-block-main-provisioner-binding":                                provisionerRole,
			"vpc-block-main-resizer-binding":                                    resizerRole,
			"vpc-block-main-snapshotter-binding":                                snapshotterRole,
		},
		Account: Account{Namespace, "ibm-vpc-block-controller-sa"},
	}
}

// madeByPowerVSBlock returns the RBAC that the operator of PowerVS Block creates (ibm-powervs-block-csi-driver-operator ab04496, assets/rbac).
func madeByPowerVSBlock() Made {
	const proxy, pods, node = "ibm-powervs-block-kube-rbac-proxy-role", "ibm-powervs-block-privileged-role", "ibm-powervs-block-csi-node-role"
	return Made{
		Roles: map[string][]rbacv1.PolicyRule{proxy: tokenReviewer(), pods: privileged(), node: {core("get", "nodes")}},
		Bindings: map[string]string{
			"ibm-powervs-block-controller-privileged-binding":             pods,
			"ibm-powervs-block-csi-main-attacher-binding":                 attacherRole,
			"ibm-powervs-block-csi-main-provisioner-binding":              provisionerRole,
			"ibm-powervs-block-csi-main-resizer-binding":                  resizerRole,
			"ibm-powervs-block-csi-node-binding":                          node,
			"ibm-powervs-block-kube-rbac-proxy-binding":                   proxy,
			"ibm-powervs-block-node-privileged-binding":                   pods,
			"ibm-powervs-block-storageclass-reader-resizer-binding":       classReader,
			"ibm-powervs-block-volumesnapshot-reader-provisioner-binding": snapshotReader,
		},
		Account: Account{Namespace, "ibm-powervs-block-csi-driver-controller-sa"},
	}
}
