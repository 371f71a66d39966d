package catalogue

import (
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// cloudNamespace is the namespace of the cloud-controller-manager. A cluster can lack this namespace.
const cloudNamespace = "openshift-cloud-controller-manager"

// secretWatcher returns the rule for an operator with a ResourceSyncController. Whatever this controller copies, it starts an informer for all
// Secrets of each watched namespace. The operator waits for each informer without a time limit. So an operator that may not list Secrets does nothing
// (library-go at csi-operator f7f9dc59, operator/resourcesynccontroller/resourcesync_controller.go:87; csi-operator f7f9dc59,
// pkg/clients/clients.go:138).
func secretWatcher() rbacv1.PolicyRule { return core("list watch", "secrets") }

// core makes a rule about resources of the core API group, whose name is empty. Spaces separate the verbs.
func core(verbs string, resources ...string) rbacv1.PolicyRule { return rule("", verbs, resources...) }

func rule(group, verbs string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: strings.Fields(verbs)}
}

func ibmVPCBlock() Entry {
	return Entry{
		Name: "vpc.block.csi.ibm.io", Title: "IBM VPC Block", Condition: "IBMVPCBlock", Platform: configv1.IBMCloudPlatformType,
		Unfit:    notOnManagedIBMCloud,
		Operator: "ibm-vpc-block-csi-driver-operator", Image: "IBM_VPC_BLOCK_DRIVER_OPERATOR_IMAGE",
		Images: images("IBM_VPC_BLOCK_DRIVER_IMAGE", allSidecars()),
		// IBM's operator copies ConfigMap cloud-conf, and watches all Secrets of the namespace cloudNamespace (ibm-vpc-block-csi-driver-operator e6d299f,
		// pkg/util/const.go:18, pkg/controller/secret/secretsync.go:87). The operator exits if its caches do not sync within ten minutes.
		Bindings: own(Binding{Namespace: cloudNamespace, Role: "cloud-role", Rules: []rbacv1.PolicyRule{
			core("get list watch", "configmaps"), secretWatcher(),
		}}), Secrets: secret("ibm-cloud-credentials"),
		Workloads: workloads(Namespace, "ibm-vpc-block-csi-controller", "ibm-vpc-block-csi-node"),
		Cloud:     true, Made: madeByIBMVPCBlock(),
	}
}

// notOnManagedIBMCloud returns why a cluster whose control plane IBM runs does not get the driver. It returns an empty text for all other clusters.
func notOnManagedIBMCloud(infrastructure configv1.InfrastructureStatus) string {
	if infrastructure.ControlPlaneTopology != configv1.ExternalTopologyMode {
		return ""
	}
	return "where IBM Cloud runs the control plane, IBM Cloud also installs the driver"
}

func powerVSBlock() Entry {
	return Entry{
		Name: "powervs.csi.ibm.com", Title: "IBM PowerVS Block", Condition: "PowerVSBlock", Platform: configv1.PowerVSPlatformType,
		Operator: "powervs-block-csi-driver-operator", Image: "POWERVS_BLOCK_CSI_DRIVER_OPERATOR_IMAGE",
		Images:   images("POWERVS_BLOCK_CSI_DRIVER_IMAGE", allSidecars()),
		Bindings: own(), Secrets: secret("ibm-powervs-cloud-credentials"),
		Workloads: workloads(Namespace, "ibm-powervs-block-csi-driver-controller", "ibm-powervs-block-csi-driver-node"),
		Made:      madeByPowerVSBlock(),
	}
}
