package clustercsidriver

import (
	"slices"

	configv1 "github.com/openshift/api/config/v1"
)

// featureGates are the driver's enabled feature gates, by the cluster's FeatureGate, or else by the defaults of this Kubernetes version.
func (r *Reconciler) featureGates(cluster *configv1.FeatureGate) map[string]bool {
	if len(r.Driver.FeatureGates) == 0 {
		return nil
	}
	var releases []configv1.FeatureGateDetails
	if cluster != nil {
		releases = cluster.Status.FeatureGates
	}
	found := map[string]bool{}
	for _, gate := range r.Driver.FeatureGates {
		on, listed := listedGate(releases, r.Version, configv1.FeatureGateName(gate.Name))
		found[gate.Name] = on || (!listed && r.KubernetesMinor >= gate.OnSince)
	}
	return found
}

// listedGate reports whether a gate is enabled in this operator's release. If the release is not listed, as during an update, the gate must be
// enabled in all listed releases.
func listedGate(releases []configv1.FeatureGateDetails, version string, name configv1.FeatureGateName) (on, listed bool) {
	has := func(gates []configv1.FeatureGateAttributes) bool {
		return slices.ContainsFunc(gates, func(gate configv1.FeatureGateAttributes) bool { return gate.Name == name })
	}
	on = true
	for _, release := range releases {
		enabled, disabled := has(release.Enabled), has(release.Disabled)
		if release.Version == version && (enabled || disabled) {
			return enabled, true
		}
		listed, on = listed || enabled || disabled, on && enabled
	}
	return on && listed, listed
}
