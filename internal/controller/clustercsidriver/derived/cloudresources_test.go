package derived

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// cannedResources notes what is asked for, and leaves what a test says.
type cannedResources struct {
	asked []string
	left  string
}

func (c *cannedResources) Manage(keep bool) {
	c.asked = append(c.asked, map[bool]string{true: "keep", false: "leave"}[keep])
}

func (c *cannedResources) Undo() string {
	c.asked = append(c.asked, "undo")
	return c.left
}

func TestWhatIsToBeMadeInTheCloudIsKeptOrLeft(t *testing.T) {
	for keep, want := range map[bool]string{true: "keep", false: "leave"} {
		resources := &cannedResources{}
		(&Source{CloudResources: resources}).Manage(keep)
		if diff := cmp.Diff([]string{want}, resources.asked); diff != "" {
			t.Errorf("%t: -want +got:\n%s", keep, diff)
		}
		// Most drivers need nothing there.
		(&Source{}).Manage(keep)
	}
}

func TestTheCloudIsAskedUntilNothingIsLeftInIt(t *testing.T) {
	c, asked, resources := newCluster(t, disk(), diskKeys("a")), &cannedCloud{}, &cannedResources{left: "a policy"}
	c.Cloud, c.CloudResources = asked, resources
	for range 2 {
		if left, err := c.Undo(t.Context(), c.found(t)); left != "a policy" || err != nil {
			t.Errorf("left %q, %v", left, err)
		}
	}
	if len(asked.followed) != 2 || asked.followed[0] == "" || asked.followed[0] != asked.followed[1] {
		t.Errorf("followed %q", asked.followed)
	}
	resources.left, asked.followed = "", nil
	for range 2 {
		if left, err := c.Undo(t.Context(), c.found(t)); left != "" || err != nil {
			t.Errorf("left %q, %v", left, err)
		}
	}
	if diff := cmp.Diff([]string{"", ""}, asked.followed); diff != "" {
		t.Errorf("after the end (-want +got):\n%s", diff)
	}
	if want := []string{"undo", "undo", "undo", "undo"}; !slices.Equal(resources.asked, want) {
		t.Errorf("asked for %v", resources.asked)
	}
}

// What is left is said even if it can't be read with which CA certificates the cloud is to be asked.
func TestAnErrorHidesNothingOfWhatIsLeft(t *testing.T) {
	c, asked := newCluster(t, disk(), diskKeys("a")), &cannedCloud{}
	c.Cloud, c.CloudResources = asked, &cannedResources{left: "a policy"}
	c.Refuse(errors.New("no route"), "get ConfigMap "+here+"/cloud")
	if left, err := c.Undo(t.Context(), c.found(t)); left != "a policy" || err == nil || len(asked.followed) > 0 {
		t.Errorf("left %q, %v, followed %v", left, err, asked.followed)
	}
}

func TestWhatIsLeftForLackOfCredentialsSaysSo(t *testing.T) {
	c, asked := newCluster(t, disk()), &cannedCloud{}
	c.Cloud, c.CloudResources = asked, &cannedResources{left: "a policy"}
	const want = "a policy; nobody can ask without Secret storage-system/disk-keys, restore it"
	if left, err := c.Undo(t.Context(), c.found(t)); left != want || err != nil || !slices.Equal(asked.followed, []string{""}) {
		t.Errorf("left %q, %v, followed %q", left, err, asked.followed)
	}
}

func TestNothingIsUndoneWhereNothingIsMade(t *testing.T) {
	c, asked := newCluster(t, disk(), diskKeys("a")), &cannedCloud{}
	c.Cloud = asked
	if left, err := c.Undo(t.Context(), c.found(t)); left != "" || err != nil || len(asked.followed) > 0 {
		t.Errorf("left %q, %v, followed %v", left, err, asked.followed)
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
		c, asked := newCluster(t, d, objects...), &cannedCloud{}
		c.Cloud = asked
		for range 2 {
			if _, err := c.Facts(t.Context(), c.found(t)); err != nil {
				t.Fatal(err)
			}
		}
		hash := asked.followed[0]
		if asked.followed[1] != hash || (hash == "") != (name == "no Secret") {
			t.Errorf("%s: followed %q", name, asked.followed)
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
