package derived

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// made is the Secret as the cache has it when it was made of these.
func made(t *testing.T, objects ...client.Object) *corev1.Secret {
	t.Helper()
	derived := newCluster(t, disk(), objects...).derive(t, driver.CloudFacts{})
	if derived.Object == nil {
		t.Fatalf("nothing is made: %+v", derived)
	}
	secret := applied(derived.Object)
	apply.HashData(secret)
	return secret
}

func TestASecretIsMadeWhenItDoesNotFollowFromItsInputs(t *testing.T) {
	current := made(t, cloudConfig("a"), diskKeys(plain))
	changed := func(change func(*corev1.Secret)) *corev1.Secret {
		secret := current.DeepCopy()
		change(secret)
		return secret
	}
	hash := apply.ContentHash(current.Data)
	idOnly := diskKeys("")
	idOnly.Data = map[string][]byte{"id": nil}
	const missing = "ConfigMap openshift-config/cloud, which configures the driver for the cloud, is missing: restore it"
	const unusable = "Secret storage-system/disk-keys has keys [id], but needs key credentials, or keys id and key"
	const keys = "Secret storage-system/disk-keys"
	for name, tc := range map[string]struct {
		objects []client.Object
		// makes is the content that is applied, empty if nothing is.
		makes   string
		hash    string
		problem string
		waits   string
	}{
		"there is none":            {[]client.Object{cloudConfig("a"), diskKeys(plain)}, "a " + plain, hash, "", ""},
		"it follows":               {[]client.Object{cloudConfig("a"), diskKeys(plain), current}, "", hash, "", ""},
		"the ConfigMap is another": {[]client.Object{cloudConfig("b"), diskKeys(plain), current}, "b " + plain, "", "", ""},
		"the keys are others":      {[]client.Object{cloudConfig("a"), diskKeys("new"), current}, "a new", "", "", ""},
		"somebody changed " +
			"it": {[]client.Object{cloudConfig("a"), diskKeys(plain), changed(func(s *corev1.Secret) { s.Data["conf"] = []byte("x") })}, "a " + plain, hash, "", ""},
		"somebody added to " +
			"it": {[]client.Object{cloudConfig("a"), diskKeys(plain), changed(func(s *corev1.Secret) { s.Data["more"] = []byte("y") })}, "a " + plain, hash, "", ""},
		"somebody took our label off": {[]client.Object{cloudConfig("a"), diskKeys(plain), changed(func(s *corev1.Secret) { s.Labels = nil })}, "a " + plain, hash, "", ""},
		"somebody deletes " +
			"it": {[]client.Object{cloudConfig("a"), diskKeys(plain), changed(func(s *corev1.Secret) { s.DeletionTimestamp = new(metav1.Now()) })}, "a " + plain, hash, "", ""},
		"no ConfigMap":             {[]client.Object{diskKeys(plain)}, "", "", missing, ""},
		"no ConfigMap any more":    {[]client.Object{diskKeys(plain), current}, "", hash, missing, ""},
		"a broken one":             {[]client.Object{cloudConfig(""), diskKeys(plain)}, "", "", "key cloud is empty: fill it in", ""},
		"one that broke":           {[]client.Object{cloudConfig(""), diskKeys(plain), current}, "", hash, "key cloud is empty: fill it in", ""},
		"no keys":                  {[]client.Object{cloudConfig("a")}, "", "", "", keys},
		"no keys any more":         {[]client.Object{cloudConfig("a"), current}, "", hash, "", keys},
		"keys that are of no use":  {[]client.Object{cloudConfig("a"), idOnly, current}, "", hash, unusable, keys},
		"changed by hand, no keys": {[]client.Object{cloudConfig("a"), changed(func(s *corev1.Secret) { s.Data["conf"] = []byte("x") })}, "", "", "", keys},
		"somebody elses, no keys":  {[]client.Object{cloudConfig("a"), changed(func(s *corev1.Secret) { s.ManagedFields = nil })}, "", "", "", keys},
		"immutable":                {[]client.Object{cloudConfig("a"), diskKeys(plain), changed(func(s *corev1.Secret) { s.Immutable = new(true) })}, "a " + plain, hash, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := newCluster(t, disk(), tc.objects...).derive(t, driver.CloudFacts{})
			made := ""
			if got.Object != nil {
				made = string(got.Object.Data["conf"])
				if of := apply.ContentHash(got.Object.Data); of != got.Hash {
					t.Errorf("the hash is %s, that of the content is %s", got.Hash, of)
				}
			}
			if tc.hash == "" && made != "" {
				tc.hash = got.Hash
			}
			if made != tc.makes || got.Hash != tc.hash || got.Problem != tc.problem || got.Waits != tc.waits {
				t.Errorf("made is %q, want %q; %+v, want %+v", made, tc.makes, got, tc)
			}
		})
	}
}

// What pods have read stays, until there is something else.
func TestTheContentThatPodsHaveCountsWhereThereIsNoOther(t *testing.T) {
	c := newCluster(t, disk(), diskKeys(plain))
	if got, err := c.Secret(t.Context(), c.found(t), driver.Config{}, "before"); err != nil || got.Hash != "before" || got.Problem == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// The version of the operator counts as an input: the next one may make another content of the same.
func TestAnotherVersionMakesTheSecretAnew(t *testing.T) {
	c := newCluster(t, disk(), cloudConfig("a"), diskKeys(plain), made(t, cloudConfig("a"), diskKeys(plain)))
	c.Version = "1.2.4"
	if got := c.derive(t, driver.CloudFacts{}); got.Object == nil {
		t.Error("it stays")
	}
}

func TestAnErrorOfAReadIsNoReasonToMakeASecret(t *testing.T) {
	for request, want := range map[string]string{
		"get ConfigMap openshift-config/cloud": "read ConfigMap openshift-config/cloud: no route",
		"get Secret " + here + "/disk-config":  "read Secret disk-config: no route",
		"get Secret " + here + "/disk-keys":    "read Secret disk-keys: no route",
	} {
		c := newCluster(t, disk(), cloudConfig("a"), diskKeys(plain))
		credentials := c.found(t)
		c.Refuse(errors.New("no route"), request)
		if got, err := c.Secret(t.Context(), credentials, driver.Config{}, ""); err == nil || err.Error() != want || got.Object != nil {
			t.Errorf("%+v, error %v, want %s", got, err, want)
		}
	}
}

// An operator that has just started has one answer, which may lack a zone. Pods are restarted for another content.
func TestZonesOfOneAnswerChangeNothingThatIsThere(t *testing.T) {
	d := facing()
	d.Cloud = &driver.Cloud{Secret: d.Credentials[0].Secret, Zones: true}
	facts := func(repeated bool, zones ...string) driver.CloudFacts {
		return driver.CloudFacts{Known: true, Repeated: repeated, ComputeZones: zones}
	}
	first := newCluster(t, d, cloudConfig("c"), diskKeys(plain)).derive(t, facts(false, "a", "b"))
	if first.Object == nil || string(first.Object.Data["zones"]) != "a b" {
		t.Fatalf("in a new cluster: %+v", first)
	}
	for name, tc := range map[string]struct {
		conf  string
		facts driver.CloudFacts
		want  string
	}{
		"the first one":                            {"c", facts(false, "a"), ""},
		"it repeats":                               {"c", facts(true, "a"), "c: a"},
		"the same as before the start":             {"c", facts(true, "a", "b"), ""},
		"the first one, and another configuration": {"d", facts(false, "a"), "d: a b"},
	} {
		got := newCluster(t, d, cloudConfig(tc.conf), diskKeys(plain), applied(first.Object)).derive(t, tc.facts)
		text := ""
		if got.Object != nil {
			text = string(got.Object.Data["conf"]) + ": " + string(got.Object.Data["zones"])
		}
		if text != tc.want {
			t.Errorf("%s: %q, want %q", name, text, tc.want)
		}
	}
}

// An operator that starts while the cloud is away goes on with what the cloud said, and follows all else.
func TestADerivedSecretFollowsTheLastAnswerOfTheCloud(t *testing.T) {
	known := driver.CloudFacts{Known: true, ComputeZones: []string{"a"}}
	derive := func(facts driver.CloudFacts, objects ...client.Object) Secret {
		t.Helper()
		return newCluster(t, facing(), objects...).derive(t, facts)
	}
	if got := derive(driver.CloudFacts{}, cloudConfig("c"), diskKeys(plain)); got.Object != nil || got.Problem != "" || !strings.Contains(got.Waits, "cloud") {
		t.Errorf("before the first answer: %+v", got)
	}
	first := derive(known, cloudConfig("c"), diskKeys(plain))
	if first.Object == nil || string(first.Object.Data["zones"]) != "a" {
		t.Fatalf("with an answer: %+v", first)
	}
	current := applied(first.Object)
	then := func(facts driver.CloudFacts) Secret { return derive(facts, cloudConfig("c"), diskKeys(plain), current) }
	if again := then(driver.CloudFacts{}); again.Object != nil || again.Hash == "" {
		t.Errorf("while the cloud is away: %+v", again)
	}
	repeated := known
	repeated.Repeated = true
	if again := then(repeated); again.Object != nil {
		t.Errorf("the same answer once more: %+v", again)
	}
	if again := then(driver.CloudFacts{Known: true, ComputeZones: []string{"b"}}); again.Object == nil || string(again.Object.Data["zones"]) != "b" {
		t.Errorf("another answer: %+v", again)
	}
	if away := derive(driver.CloudFacts{}, cloudConfig("d"), diskKeys(plain), current); away.Object == nil ||
		string(away.Object.Data["conf"]) != "d" || string(away.Object.Data["zones"]) != "a" {
		t.Errorf("another configuration while the cloud is away: %+v", away)
	}
}
