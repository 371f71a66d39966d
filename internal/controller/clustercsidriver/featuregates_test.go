package clustercsidriver

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

func TestAFeatureGateIsThatOfTheOperatorsRelease(t *testing.T) {
	release := func(version string, enabled, disabled string) configv1.FeatureGateDetails {
		details := configv1.FeatureGateDetails{Version: version}
		if enabled != "" {
			details.Enabled = []configv1.FeatureGateAttributes{{Name: "Other"}, {Name: configv1.FeatureGateName(enabled)}}
		}
		if disabled != "" {
			details.Disabled = []configv1.FeatureGateAttributes{{Name: configv1.FeatureGateName(disabled)}}
		}
		return details
	}
	for name, tc := range map[string]struct {
		releases   []configv1.FeatureGateDetails
		on, listed bool
	}{
		"no FeatureGate":                         {},
		"on":                                     {[]configv1.FeatureGateDetails{release("2", "Gate", "")}, true, true},
		"off":                                    {[]configv1.FeatureGateDetails{release("2", "", "Gate")}, false, true},
		"not mentioned":                          {[]configv1.FeatureGateDetails{release("2", "", "Else")}, false, false},
		"off before this release":                {[]configv1.FeatureGateDetails{release("1", "", "Gate"), release("2", "Gate", "")}, true, true},
		"on in another release, and not in this": {[]configv1.FeatureGateDetails{release("1", "Gate", ""), release("2", "", "Gate")}, false, true},
		"on in all others":                       {[]configv1.FeatureGateDetails{release("1", "Gate", ""), release("3", "Gate", "")}, true, true},
		"on in some others":                      {[]configv1.FeatureGateDetails{release("1", "", ""), release("3", "Gate", "")}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			on, listed := listedGate(tc.releases, "2", "Gate")
			if on != tc.on || listed != tc.listed {
				t.Errorf("on %v, listed %v; want %v, %v", on, listed, tc.on, tc.listed)
			}
		})
	}
}
