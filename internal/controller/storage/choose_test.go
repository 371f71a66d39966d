package storage

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

// entries are a catalogue of its own, because that of today has no gate.
func entries() []catalogue.Entry {
	return []catalogue.Entry{
		{Name: "plain.example", Title: "Plain", Condition: "Plain", Platform: configv1.AWSPlatformType, Operator: "plain-operator", Builtin: true},
		{Name: "gated.example", Title: "Gated", Condition: "Gated", Platform: configv1.AWSPlatformType, Operator: "gated-operator", Gate: "Feature"},
		{
			Name: "unfit.example", Title: "Unfit", Condition: "Unfit", Platform: configv1.AzurePlatformType, Operator: "unfit-operator",
			Unfit: func(infrastructure configv1.InfrastructureStatus) string {
				if infrastructure.ControlPlaneTopology == configv1.ExternalTopologyMode {
					return "somebody else brings it"
				}
				return ""
			},
		},
	}
}

func platform(name configv1.PlatformType) *configv1.InfrastructureStatus {
	return &configv1.InfrastructureStatus{PlatformStatus: &configv1.PlatformStatus{Type: name}}
}

// old names its platform as clusters did before the field of today.
func old(platform *configv1.PlatformStatus) *configv1.InfrastructureStatus {
	return &configv1.InfrastructureStatus{Platform: "AWS", PlatformStatus: platform} //nolint:staticcheck // Old clusters have nothing else.
}

func gate(enabled, disabled string) gates {
	details := configv1.FeatureGateDetails{Version: "2"}
	if enabled != "" {
		details.Enabled = []configv1.FeatureGateAttributes{{Name: configv1.FeatureGateName(enabled)}}
	}
	if disabled != "" {
		details.Disabled = []configv1.FeatureGateAttributes{{Name: configv1.FeatureGateName(disabled)}}
	}
	return gatesOf(&configv1.FeatureGate{Status: configv1.FeatureGateStatus{FeatureGates: []configv1.FeatureGateDetails{
		{Version: "1", Enabled: []configv1.FeatureGateAttributes{{Name: "Feature"}}}, details,
	}}}, "2")
}

func TestThePlatformAndTheGatesDecideWhichDriversAreWanted(t *testing.T) {
	external := platform(configv1.AzurePlatformType)
	external.ControlPlaneTopology = configv1.ExternalTopologyMode
	on := gate("Feature", "")
	for name, tc := range map[string]struct {
		facts facts
		// want are the decisions for plain, gated and unfit.
		want string
		// says is part of what is said about one of them, or about the platform.
		says string
	}{
		"the platform's own":                     {facts{infrastructure: platform("AWS"), gates: on}, "Wanted Wanted Absent", ""},
		"another platform":                       {facts{infrastructure: platform("Azure"), gates: on}, "Absent Absent Wanted", ""},
		"a platform without drivers":             {facts{infrastructure: platform("None"), gates: on}, "Absent Absent Absent", ""},
		"a platform that nobody knows":           {facts{infrastructure: platform("Moon"), gates: on}, "Absent Absent Absent", ""},
		"a cluster that is as old as its fields": {facts{infrastructure: old(nil), gates: on}, "Wanted Wanted Absent", ""},
		"an old field beside an empty new one":   {facts{infrastructure: old(&configv1.PlatformStatus{}), gates: on}, "Wanted Wanted Absent", ""},
		"no platform at all":                     {facts{infrastructure: &configv1.InfrastructureStatus{}, gates: on}, "Absent Absent Absent", "has no platform"},
		"no platform any more":                   {facts{infrastructure: &configv1.InfrastructureStatus{}, gates: on, ours: all(), present: all()}, "Kept Kept Kept", "has no platform"},
		"no Infrastructure":                      {facts{gates: on}, "Absent Absent Absent", "Infrastructure cluster is missing"},
		"no Infrastructure any more":             {facts{gates: on, ours: all(), present: all()}, "Kept Kept Kept", "Infrastructure cluster is missing"},
		"an administrator's, without a platform": {facts{gates: on, present: all()}, "Absent Absent Absent", "Infrastructure cluster is missing"},
		"another platform since":                 {facts{infrastructure: platform("Azure"), gates: on, ours: all(), present: all()}, "Unwanted Unwanted Wanted", "platform of the cluster is Azure"},
		"no driver since":                        {facts{infrastructure: platform("None"), gates: on, ours: all(), present: all()}, "Unwanted Unwanted Unwanted", "platform of the cluster is None"},
		"an administrator's on a foreign place":  {facts{infrastructure: platform("Azure"), gates: on, present: all()}, "Absent Absent Wanted", ""},
		"a disabled gate":                        {facts{infrastructure: platform("AWS"), gates: gate("", "Feature")}, "Wanted Absent Absent", "Feature is disabled"},
		"a gate that was disabled":               {facts{infrastructure: platform("AWS"), gates: gate("", "Feature"), ours: all()}, "Wanted Unwanted Unwanted", "Feature is disabled"},
		"a gate that nobody knows":               {facts{infrastructure: platform("AWS"), gates: gate("Other", "")}, "Wanted Absent Absent", "does not know feature gate"},
		"a gate that nobody knows any more":      {facts{infrastructure: platform("AWS"), gates: gate("Other", ""), ours: all()}, "Wanted Wanted Unwanted", "does not know feature gate"},
		"gates of another release": {facts{infrastructure: platform("AWS"), gates: gatesOf(&configv1.FeatureGate{}, "2")},
			"Wanted Absent Absent", `does not list the gates of release "2" yet`},
		"no FeatureGate":                    {facts{infrastructure: platform("AWS"), gates: gatesOf(nil, "2")}, "Wanted Absent Absent", "FeatureGate cluster is missing"},
		"not where somebody else brings it": {facts{infrastructure: external, gates: on}, "Absent Absent Absent", "somebody else brings it"},
		"but it stays where it is":          {facts{infrastructure: external, gates: on, present: all()}, "Absent Absent Wanted", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var decisions, said []string
			for _, one := range choose(entries(), tc.facts) {
				decisions, said = append(decisions, string(one.decision)), append(said, one.why, one.problem)
			}
			if diff := cmp.Diff(tc.want, strings.Join(decisions, " ")); diff != "" {
				t.Error(diff)
			}
			said = slices.DeleteFunc(append(said, tc.facts.problem()), func(text string) bool { return text == "" })
			if all := strings.Join(said, "; "); !strings.Contains(all, tc.says) || (tc.says == "" && all != "") {
				t.Errorf("it says %q, want %q", all, tc.says)
			}
		})
	}
}

func all() map[string]bool {
	return map[string]bool{"plain.example": true, "gated.example": true, "unfit.example": true}
}

func TestOnlyWhatThisProgramHasTouchedIsItsOwn(t *testing.T) {
	driver := func(manager, subresource string) *operatorv1.ClusterCSIDriver {
		made := &operatorv1.ClusterCSIDriver{}
		made.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: manager, Subresource: subresource}}
		return made
	}
	for name, tc := range map[string]struct {
		driver *operatorv1.ClusterCSIDriver
		want   bool
	}{
		"absent": {nil, false}, "an administrator's": {driver("oc", ""), false}, "ours": {driver("cluster-storage-operator", ""), true},
		"whose status was written": {driver("cluster-storage-operator", "status"), false},
	} {
		if got := isOurs(tc.driver); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Whatever is said of gates, and whether anything is, all stays as it is.
func TestNoDriverOfThisReleaseWaitsForAGate(t *testing.T) {
	future := []configv1.FeatureGateAttributes{{Name: "FromTheFuture"}}
	gates := map[string]*configv1.FeatureGate{"no FeatureGate": nil, "one without a status": {}, "unknown gates": {}}
	gates["unknown gates"].Status.FeatureGates = []configv1.FeatureGateDetails{{Version: "2", Enabled: future}, {Version: "3", Disabled: future}}
	all := catalogue.All()
	for _, entry := range all {
		for name, gate := range gates {
			w := release()
			w.Infrastructure, w.FeatureGate = infrastructure(entry.Platform), gate
			choices := choose(all, w.facts(all))
			for _, one := range choices {
				if (one.decision == wanted) != (one.entry.Platform == entry.Platform) || one.problem != "" {
					t.Errorf("%s on %s, %s: %s, %s", one.entry.Title, entry.Platform, name, one.decision, one.problem)
				}
			}
			if conditions, again := newMemory().starterConditions(w, choices); len(odd(conditions)) > 0 || again != 0 {
				t.Errorf("%s, %s: it says %v", entry.Platform, name, odd(conditions))
			}
		}
	}
}
