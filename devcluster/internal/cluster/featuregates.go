package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	// This package registers the feature gates of Kubernetes when it is imported.
	_ "k8s.io/kubernetes/pkg/features"
)

// ParseFeatureGates parses the value of --feature-gates: NAME=true or NAME=false, separated by commas. Kubernetes also accepts other words for true
// and false, and uses the last value of a gate that is given twice. ParseFeatureGates refuses such words, and gates that are given twice.
func ParseFeatureGates(text string) (map[string]bool, error) {
	if text == "" {
		return nil, nil
	}
	gates := map[string]bool{}
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if name == "" || value != "true" && value != "false" {
			return nil, fmt.Errorf("--feature-gates has %q: write NAME=true or NAME=false, separated by commas", part)
		}
		if _, twice := gates[name]; twice {
			return nil, fmt.Errorf("--feature-gates has %s twice: give each gate one value", name)
		}
		gates[name] = value == "true"
	}
	return gates, nil
}

// validateGates returns an error if a component would refuse the feature gates. This check runs no component, because this binary contains all
// components, and so knows all of their gates.
func (o Options) validateGates() error {
	if len(o.Profile.FeatureGates) == 0 {
		return nil
	}
	known := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if o.EmulatedVersion != "" {
		emulated, err := version.ParseGeneric(o.EmulatedVersion)
		if err == nil {
			err = known.SetEmulationVersion(emulated)
		}
		if err != nil {
			return fmt.Errorf("--emulated-version is %s: %w", o.EmulatedVersion, err)
		}
	}
	if err := known.SetFromMap(o.Profile.FeatureGates); err != nil {
		return fmt.Errorf("--feature-gates is %s, which this Kubernetes refuses: %w", gatesText(o.Profile.FeatureGates), err)
	}
	return nil
}

// gatesText returns the value of --feature-gates.
func gatesText(gates map[string]bool) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		parts = append(parts, fmt.Sprintf("%s=%t", name, gates[name]))
	}
	return strings.Join(parts, ",")
}
