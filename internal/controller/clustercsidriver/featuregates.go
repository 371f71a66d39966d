package clustercsidriver

import (
	"slices"

	configv1 "github.com/openshift/api/config/v1"
)

// featureGates returns the driver's enabled feature gates. If the cluster's FeatureGate does not list a gate, the default of this Kubernetes version
// decides.
func (r *Reconciler) featureGates(cluster *configv1.FeatureGate) map[string]bool {
	var releases []configv1.FeatureGateDetails
	if cluster != nil {
		releases = cluster.Status.FeatureGates
	}
	found := map[string]bool{}
	for _, gate := range r.Driver.Gates() {
		on, listed := listedGate(releases, r.Version, configv1.FeatureGateName(gate.Name))
		found[gate.Name] = on || (!listed && r.KubernetesMinor >= gate.OnSince)
	}
	return found
}

// listedGate reports whether the FeatureGate enables a gate for this operator's release. During an update, the FeatureGate may not list the release
// yet. In that case, the gate is enabled if all listed releases enable it. Result "listed" is true if at least one release lists the gate.
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
