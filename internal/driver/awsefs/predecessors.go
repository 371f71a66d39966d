package awsefs

import (
	operatorv1 "github.com/openshift/api/operator/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// commonProvisionerBinding is the name under which OpenShift's operator binds the provisioner's role (openshift/csi-operator f7f9dc59,
// assets/overlays/aws-efs/generated/standalone/main_provisioner_binding.yaml), and under which earlier versions of this operator also bound it.
const commonProvisionerBinding = "efs-csi-main-provisioner-binding"

// CommunityOperator is the name of the community's operator, which also serves SharedVolumes.
const CommunityOperator = "aws-efs-operator"

// predecessors returns the community's operator and OpenShift's operator. The DaemonSet of the community's operator has the name of ours. OpenShift's
// operator has the name of our operator, so only an operator in another namespace is the predecessor.
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
