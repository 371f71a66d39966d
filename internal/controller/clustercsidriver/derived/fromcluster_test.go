package derived

import (
	"encoding/json"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// fromCluster is a driver whose Secret follows from the cluster's configuration as well.
func fromCluster() driver.Driver {
	d := disk()
	d.Derived.FromCluster = true
	d.Derived.Build = func(inputs driver.DerivedInputs) (map[string][]byte, error) {
		text, err := json.Marshal(inputs.Cluster)
		return map[string][]byte{"conf": text}, err
	}
	return d
}

func TestASecretFollowsTheConfigurationOfTheCluster(t *testing.T) {
	derive := func(cfg driver.Config) (content, from string) {
		c := newCluster(t, fromCluster(), cloudConfig("a"), diskKeys(plain))
		made, err := c.Secret(t.Context(), c.found(t), cfg, "")
		if err != nil || made.Object == nil {
			t.Fatalf("%+v, %v", made, err)
		}
		return string(made.Object.Data["conf"]), made.Object.Annotations[derivedAnnotation]
	}
	domains := &configv1.VSpherePlatformSpec{FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{{Name: "a"}}}
	cfg := driver.Config{InfrastructureID: "dev", VSphere: domains}
	cfg.Spec.DriverConfig.DriverType = operatorv1.VSphereDriverType
	content, from := derive(cfg)
	for _, part := range []string{`"dev"`, `"name":"a"`, `"driverType":"vSphere"`} {
		if !strings.Contains(content, part) {
			t.Errorf("%s lacks %s", content, part)
		}
	}
	cfg.Spec.LogLevel = operatorv1.Debug
	if _, again := derive(cfg); again != from {
		t.Errorf("the log level is an input: %s, %s", from, again)
	}
	before := from
	cfg.VSphere = nil
	if _, from = derive(cfg); from == before {
		t.Error("failure domains that go are no news")
	}
}

// Which hosts are old and what the policy is called say nothing of how the vCenters are reached.
func TestFactsThatAreNoInputMakeNothingAnew(t *testing.T) {
	before := origin{}.with("a", driver.CloudFacts{Known: true, DatastoreURL: "ds:///a"})
	for name, tc := range map[string]struct {
		facts driver.CloudFacts
		same  bool
	}{
		"refused":        {driver.CloudFacts{Known: true, DatastoreURL: "ds:///a", Refused: "too old"}, true},
		"a policy":       {driver.CloudFacts{Known: true, DatastoreURL: "ds:///a", StoragePolicy: "p"}, true},
		"many volumes":   {driver.CloudFacts{Known: true, DatastoreURL: "ds:///a", ManyVolumes: true}, true},
		"another store":  {driver.CloudFacts{Known: true, DatastoreURL: "ds:///b"}, false},
		"nothing at all": {driver.CloudFacts{Known: true}, false},
	} {
		if got := (origin{}).with("a", tc.facts) == before; got != tc.same {
			t.Errorf("%s: the same %v, want %v", name, got, tc.same)
		}
	}
}
