package awsefs

import (
	operatorv1 "github.com/openshift/api/operator/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// commonProvisionerBinding is the name of the binding of the provisioner's role in OpenShift's operator (openshift/csi-operator f7f9dc59,
// assets/overlays/aws-efs/generated/standalone/main_provisioner_binding.yaml). Earlier versions of this operator used the same name.
const commonProvisionerBinding = "efs-csi-main-provisioner-binding"

// CommunityOperator is the name of the community's operator, which also serves SharedVolumes.
const CommunityOperator = "aws-efs-operator"

// predecessors returns the community's operator and OpenShift's operator. The DaemonSet of the community's operator has the same name as our
// DaemonSet. OpenShift's operator has the same name as our operator. So an operator of this name is a predecessor only if it is in another namespace.
func predecessors() []driver.Predecessor {
	return []driver.Predecessor{
		{
			Title: "the community's operator", Operator: CommunityOperator, Package: CommunityOperator,
			Right: authorizationv1.ResourceAttributes{
				Verb: "update", Group: "aws-efs.managed.openshift.io", Version: "*", Resource: "sharedvolumes",
			},
			DaemonSet: "efs-csi-node", ServiceAccount: "efs-csi-sa", SecurityContextConstraints: "efs-csi-scc",
			Label: "openshift.io/aws-efs-operator-owned", Owner: "sharedvolumes.aws-efs.managed.openshift.io",
		},
		{
			Title: "OpenShift's operator", Operator: Operator, Package: Operator,
			Right: authorizationv1.ResourceAttributes{
				Verb: "patch", Group: operatorv1.GroupName, Version: "*", Resource: "clustercsidrivers", Subresource: "status", Name: Name,
			},
			DaemonSet: "aws-efs-csi-driver-node", ClusterRoleBindings: []string{commonProvisionerBinding},
		},
	}
}

// installers returns other programs that install the driver, with the versions that they install. The Helm chart and the EKS add-on are not in the
// table, because the tag of their image names the version: v2.1.15, or v2.1.15-eksbuild.1 (kubernetes-sigs/aws-efs-csi-driver v3.4.1,
// charts/aws-efs-csi-driver/values.yaml).
func installers() []driver.Installer {
	return []driver.Installer{
		{
			// Commit 778131e is 77 commits after v0.3.0, and before v1.0.0.
			Title: "the community's operator", Image: "aws-efs-csi-driver:778131e", Oldest: "1.0.0-0", Newest: "1.0.0-0",
			Source: "openshift/aws-efs-operator 036c30e pkg/controller/statics/defs/daemonset.yaml",
		},
		{
			// The version of the driver is 1.3.2 in OpenShift 4.9, 1.7.0 in 4.15, 2.0.5 in 4.17, 2.1.5 in 4.19, and 2.1.11 in 4.21 to 5.1. The names of the
			// images contain a digest instead of a version.
			Title: "OpenShift's operator", DaemonSet: "aws-efs-csi-driver-node", Oldest: "1.3.2", Newest: "2.1.11",
			Source: "openshift/aws-efs-csi-driver Makefile VERSION at release-4.9 e0026949 to release-5.1 2516ba5f",
		},
	}
}
