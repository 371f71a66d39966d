package derived

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func TestWhatIsToBeMadeInTheCloudIsKeptOrLeft(t *testing.T) {
	for keep, want := range map[bool]string{true: "keep", false: "leave"} {
		resources := &canned.Resources{}
		(&Source{CloudResources: resources}).Manage(keep)
		if diff := cmp.Diff([]string{want}, resources.Asked); diff != "" {
			t.Errorf("%t: -want +got:\n%s", keep, diff)
		}
		// Most drivers need nothing there.
		(&Source{}).Manage(keep)
	}
}

func TestWhatIsLeftForLackOfCredentialsSaysSo(t *testing.T) {
	for name, tc := range map[string]struct {
		objects    []client.Object
		left, want string
	}{
		"nothing is left": {nil, "", ""},
		"credentials":     {[]client.Object{diskKeys("a")}, "a policy", "a policy"},
		"none":            {nil, "a policy", "a policy; the operator can't query the cloud without Secret storage-system/disk-keys: restore it"},
	} {
		c, resources := newCluster(t, disk(), tc.objects...), &canned.Resources{Left: tc.left}
		c.CloudResources = resources
		if left := c.Undo(c.found(t)); left != tc.want || !slices.Equal(resources.Asked, []string{"undo"}) {
			t.Errorf("%s: left %q, asked for %v", name, left, resources.Asked)
		}
	}
}

func TestNothingIsUndoneWhereNothingIsMade(t *testing.T) {
	if left := newCluster(t, disk()).Undo(credential.Found{}); left != "" {
		t.Errorf("left %q", left)
	}
}

// vCenters are asked with a configuration, and trusted by the CA certificates of the cluster.
func TestVCentersAreAskedAnewWhenAnyOfWhatTheyAreAskedWithChanges(t *testing.T) {
	d := disk()
	d.Cloud = &driver.Cloud{Secret: "disk-keys", VCenters: true, Config: client.ObjectKey{Namespace: "openshift-config", Name: "cloud"}}
	bundle := func(content string) client.Object {
		return configMap(here, "disk-trusted-ca-bundle", driver.TrustedCAKey, content)
	}
	seen := map[string]string{}
	for name, objects := range map[string][]client.Object{
		"all":                   {diskKeys("a"), cloudConfig("c"), bundle("x")},
		"another Secret":        {diskKeys("b"), cloudConfig("c"), bundle("x")},
		"another configuration": {diskKeys("a"), cloudConfig("d"), bundle("x")},
		"other certificates":    {diskKeys("a"), cloudConfig("c"), bundle("y")},
		"no certificates":       {diskKeys("a"), cloudConfig("c")},
		"no configuration":      {diskKeys("a"), bundle("x")},
		"no Secret":             {cloudConfig("c"), bundle("x")},
	} {
		c := newCluster(t, d, objects...)
		c.Cloud = &cannedCloud{}
		hash, again := c.inputs(t), c.inputs(t)
		if again != hash || (hash == "") != (name == "no Secret") {
			t.Errorf("%s: hashes %q, %q", name, hash, again)
		}
		if other, found := seen[hash]; found {
			t.Errorf("%s: the hash is also that of %q", name, other)
		}
		seen[hash] = name
	}
}

// A Secret that is made anew restarts pods: what is decided about other things must not.
func TestOnlyWhatTheSecretHasOfTheCloudMakesItAnew(t *testing.T) {
	known := driver.CloudFacts{Known: true, DatastoreURL: "ds:///a/"}
	for name, tc := range map[string]struct {
		change  func(*driver.CloudFacts)
		another bool
	}{
		"nothing":             {func(*driver.CloudFacts) {}, false},
		"the same once more":  {func(f *driver.CloudFacts) { f.Repeated = true }, false},
		"the driver is held":  {func(f *driver.CloudFacts) { f.Refused = "ESXi is too old" }, false},
		"the policy is there": {func(f *driver.CloudFacts) { f.StoragePolicy = "p" }, false},
		"more volumes a node": {func(f *driver.CloudFacts) { f.ManyVolumes = true }, false},
		"another datastore":   {func(f *driver.CloudFacts) { f.DatastoreURL = "ds:///b/" }, true},
		"another zone":        {func(f *driver.CloudFacts) { f.ComputeZones = []string{"a"} }, true},
		"no answer any more":  {func(f *driver.CloudFacts) { *f = driver.CloudFacts{} }, false},
	} {
		before := origin{}.with("inputs", known)
		facts := known
		tc.change(&facts)
		if after := before.with("inputs", facts); (after != before) != tc.another {
			t.Errorf("%s: %s, then %s", name, before, after)
		}
		// Another input always does.
		if after := before.with("others", facts); after == before {
			t.Errorf("%s: other inputs change nothing", name)
		}
	}
}

// Another form of the annotation would restart the pods of every cluster that is upgraded.
func TestAnOriginIsReadAsItWasWritten(t *testing.T) {
	for text, want := range map[string]origin{
		"in.cloud-content": {inputs: "in", cloud: "cloud", content: "content"},
		"in-content":       {inputs: "in", content: "content"},
	} {
		if got := parseOrigin(text); got != want || got.String() != text {
			t.Errorf("%s is read as %+v and written as %s", text, got, got)
		}
	}
	for _, text := range []string{"", "no end"} {
		if got := parseOrigin(text); got.content != "" {
			t.Errorf("%q has the content %q", text, got.content)
		}
	}
}
