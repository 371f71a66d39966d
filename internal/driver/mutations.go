package driver

import (
	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
)

// standardMutations are applied to every driver, before its own.
func standardMutations() []Mutation {
	return []Mutation{
		Mutate(setReplicas),
		Mutate(placeController),
	}
}

// setReplicas runs two controllers where two can run at once. The host ports allow one for each node.
func setReplicas(cfg Config, deployment *appsv1.Deployment) error {
	topology := cfg.ControlPlaneTopology
	if topology == configv1.ExternalTopologyMode {
		topology = cfg.InfrastructureTopology
	}
	replicas := int32(2)
	if topology == configv1.SingleReplicaTopologyMode || topology == "" {
		// A second pod would wait for a second node for ever.
		replicas = 1
	}
	deployment.Spec.Replicas = &replicas
	return nil
}

// placeController lets the controller run on workers where the cluster has no control-plane nodes of its own, and
// where it is not known whether it has (no Infrastructure: not OpenShift).
func placeController(cfg Config, deployment *appsv1.Deployment) error {
	if cfg.ControlPlaneTopology == configv1.ExternalTopologyMode || cfg.ControlPlaneTopology == "" {
		deployment.Spec.Template.Spec.NodeSelector = nil
	}
	return nil
}
