package openshift

import configv1 "github.com/openshift/api/config/v1"

// Labels by which network policies of the release select pods. If egress policies select a pod, the pod can connect only to the targets of these
// policies.
const (
	// APIServerLabel lets a pod connect to ports 6443 and 443.
	APIServerLabel = "openshift.storage.network-policy.api-server"
	// AllEgressLabel lets a pod connect to all ports.
	AllEgressLabel = "openshift.storage.network-policy.all-egress"
	allow          = "allow"
)

// HasControlPlane reports whether the control plane runs on nodes of the cluster. It returns false if the topology is unknown, for instance because
// the cluster has no Infrastructure.
func HasControlPlane(topology configv1.TopologyMode) bool {
	return topology != configv1.ExternalTopologyMode && topology != ""
}

// OpenEgress lets a pod with APIServerLabel connect to all ports, unless the control plane runs on nodes of the cluster. An API server outside of the
// cluster can use any port. OpenShift's operators do the same (cluster-storage-operator 428eae614, OCPBUGS-62121).
func OpenEgress(pod map[string]string, topology configv1.TopologyMode) {
	if pod[APIServerLabel] == allow && !HasControlPlane(topology) {
		OpenAllEgress(pod)
	}
}

// OpenAllEgress lets a pod connect to all ports. It is for pods that connect to a cloud.
func OpenAllEgress(pod map[string]string) { pod[AllEgressLabel] = allow }
