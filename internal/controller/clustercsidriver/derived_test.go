package clustercsidriver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/canned"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/openshift"
)

const plain = "s3cr3t"

// deriving is a driver whose pods mount one Secret, made of a ConfigMap and of the Secret with its keys.
func deriving() driver.Driver {
	d := disk()
	d.Credentials = d.Credentials[:1]
	d.Credentials[0].Workload = ""
	d.Derived = &driver.Derived{
		Name: "disk-config", Workloads: []driver.Workload{driver.Controller, driver.Node},
		ConfigMaps: []driver.DerivedConfigMap{{ObjectKey: client.ObjectKey{Namespace: "openshift-config", Name: "cloud"}}},
		Build: func(inputs driver.DerivedInputs) (map[string][]byte, error) {
			if inputs.ConfigMaps["cloud"]["cloud"] == "" {
				return nil, errors.New("key cloud is empty: fill it in")
			}
			return map[string][]byte{"conf": []byte(inputs.ConfigMaps["cloud"]["cloud"] + " " + string(inputs.Secrets["disk-keys"]["credentials"]))}, nil
		},
	}
	return d
}

func cloudConfig(cloud string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "cloud"}, Data: map[string]string{"cloud": cloud}}
}

func diskKeys(value string) *corev1.Secret {
	return secret(nil, map[string][]byte{"credentials": []byte(value)})
}

// made is the Secret as the cache has it when it was made of these.
func made(t *testing.T, objects ...client.Object) *corev1.Secret {
	t.Helper()
	s := newTrip(t, deriving(), objects...)
	found := s.observeDerived(t)
	if found.derived.secret == nil {
		t.Fatalf("nothing is made: %+v", found.derived)
	}
	secret := found.derived.secret.DeepCopy()
	apply.HashData(secret)
	secret.ManagedFields = ours(&corev1.Secret{}).ManagedFields
	return secret
}

// observeDerived is the part of a trip that reads the inputs.
func (s *trip) observeDerived(t *testing.T) seen {
	t.Helper()
	found := seen{live: live{secrets: map[string]foundSecret{}}}
	keys, err := s.secret(t.Context(), "disk-keys")
	if err != nil {
		t.Fatal(err)
	}
	if keys.hash != "" {
		found.live.secrets["disk-keys"] = keys
	}
	delete(s.Kinds, openshift.ProxyKind())
	if err := s.inputs(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestASecretIsMadeWhenItDoesNotFollowFromItsInputs(t *testing.T) {
	current := made(t, cloudConfig("a"), diskKeys(plain))
	changed := func(change func(*corev1.Secret)) *corev1.Secret {
		secret := current.DeepCopy()
		change(secret)
		return secret
	}
	hash := apply.ContentHash(current.Data)
	const missing = "ConfigMap openshift-config/cloud is missing, with what the driver has to know of the cloud: restore it"
	const unusable = "Secret storage-system/disk-keys has keys [id], but needs key credentials, or keys id and key"
	const goesOn = "; the driver goes on with its previous configuration"
	for name, tc := range map[string]struct {
		objects []client.Object
		// makes is the content that is applied, empty if nothing is.
		makes   string
		hash    string
		problem string
		holds   string
	}{
		"there is none":               {[]client.Object{cloudConfig("a"), diskKeys(plain)}, "a " + plain, hash, "", ""},
		"it follows":                  {[]client.Object{cloudConfig("a"), diskKeys(plain), current}, "", hash, "", ""},
		"the ConfigMap is another":    {[]client.Object{cloudConfig("b"), diskKeys(plain), current}, "b " + plain, "", "", ""},
		"the keys are others":         {[]client.Object{cloudConfig("a"), diskKeys("new"), current}, "a new", "", "", ""},
		"somebody changed it":         {[]client.Object{cloudConfig("a"), diskKeys(plain), changed(func(s *corev1.Secret) { s.Data["conf"] = []byte("x") })}, "a " + plain, hash, "", ""},
		"somebody added to it":        {[]client.Object{cloudConfig("a"), diskKeys(plain), changed(func(s *corev1.Secret) { s.Data["more"] = []byte("y") })}, "a " + plain, hash, "", ""},
		"somebody took our label off": {[]client.Object{cloudConfig("a"), diskKeys(plain), changed(func(s *corev1.Secret) { s.Labels = nil })}, "a " + plain, hash, "", ""},
		"somebody deletes it":         {[]client.Object{cloudConfig("a"), diskKeys(plain), deleted(changed(func(*corev1.Secret) {}))}, "a " + plain, hash, "", ""},
		"no ConfigMap":                {[]client.Object{diskKeys(plain)}, "", "", missing, missing},
		"no ConfigMap any more":       {[]client.Object{diskKeys(plain), current}, "", hash, missing + goesOn, ""},
		"a broken one":                {[]client.Object{cloudConfig(""), diskKeys(plain)}, "", "", "key cloud is empty: fill it in", "key cloud is empty: fill it in"},
		"one that broke":              {[]client.Object{cloudConfig(""), diskKeys(plain), current}, "", hash, "key cloud is empty: fill it in" + goesOn, ""},
		"no keys":                     {[]client.Object{cloudConfig("a")}, "", "", "", waitForKeys},
		"no keys any more":            {[]client.Object{cloudConfig("a"), current}, "", hash, "", ""},
		"keys that are of no use":     {[]client.Object{cloudConfig("a"), secret(nil, map[string][]byte{"id": nil}), current}, "", hash, unusable + goesOn, ""},
		"changed by hand, no keys":    {[]client.Object{cloudConfig("a"), changed(func(s *corev1.Secret) { s.Data["conf"] = []byte("x") })}, "", "", "", waitForKeys},
		"somebody elses, no keys":     {[]client.Object{cloudConfig("a"), changed(func(s *corev1.Secret) { s.ManagedFields = nil })}, "", "", "", waitForKeys},
		"immutable":                   {[]client.Object{cloudConfig("a"), diskKeys(plain), changed(func(s *corev1.Secret) { s.Immutable = new(true) })}, "a " + plain, hash, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTrip(t, deriving(), tc.objects...)
			found := s.observeDerived(t)
			made := ""
			if secret := found.derived.secret; secret != nil {
				made = string(secret.Data["conf"])
				if got := apply.ContentHash(secret.Data); got != found.derived.hash {
					t.Errorf("the hash is %s, that of the content is %s", found.derived.hash, got)
				}
			}
			if made != tc.makes {
				t.Errorf("made is %q, want %q", made, tc.makes)
			}
			if tc.hash == "" && made != "" {
				tc.hash = found.derived.hash
			}
			for _, workload := range deriving().Derived.Workloads {
				if got := found.config.DependencyHashes[workload]["disk-config"]; got != tc.hash || found.holds[workload] != tc.holds {
					t.Errorf("%s reads %q, want %q; it is held by %q, want %q", workload, got, tc.hash, found.holds[workload], tc.holds)
				}
			}
			if got := strings.Join(found.problems, "|"); got != tc.problem {
				t.Errorf("problem %q, want %q", got, tc.problem)
			}
			// The Secret is read only to make something of it.
			read := slices.Contains(s.cluster.Reads[1:], "get Secret "+here+"/disk-keys")
			if needed := tc.makes != "" || strings.Contains(tc.problem, "empty"); read != needed {
				t.Errorf("the keys are read: %t, want %t: %v", read, needed, s.cluster.Reads)
			}
		})
	}
}

// The version of the operator counts as an input: the next one may make another content of the same.
func TestAnotherVersionMakesTheSecretAnew(t *testing.T) {
	s := newTrip(t, deriving(), cloudConfig("a"), diskKeys(plain), made(t, cloudConfig("a"), diskKeys(plain)))
	s.Environment.Version = "1.2.4"
	if found := s.observeDerived(t); found.derived.secret == nil {
		t.Error("it stays")
	}
}

func TestAnErrorOfAReadIsNoReasonToMakeASecret(t *testing.T) {
	for request, want := range map[string]string{
		"get ConfigMap openshift-config/cloud": "read ConfigMap openshift-config/cloud: no route",
		"get Secret " + here + "/disk-config":  "read Secret disk-config: read: no route",
	} {
		s := newTrip(t, deriving(), cloudConfig("a"), diskKeys(plain))
		s.cluster.Refuse(errors.New("no route"), request)
		_, err := s.derive(t.Context(), live{secrets: map[string]foundSecret{"disk-keys": {hash: "a", keys: []string{"credentials"}}}}, driver.Config{})
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	s := newTrip(t, deriving(), cloudConfig("a"), diskKeys(plain))
	s.cluster.Refuse(errors.New("no route"), "get Secret "+here+"/disk-keys")
	_, err := s.derive(t.Context(), live{secrets: map[string]foundSecret{"disk-keys": {hash: "a", keys: []string{"credentials"}}}}, driver.Config{})
	if err == nil || err.Error() != "read Secret disk-keys: no route" {
		t.Error(err)
	}
}

// A pod that started with the content before would keep it: its annotation says that it has the new one.
func TestWorkloadsWaitForASecretThatCannotBeApplied(t *testing.T) {
	d := deriving()
	s := newTrip(t, d, cloudConfig("a"), diskKeys(plain))
	found := s.observeDerived(t)
	objects, err := d.Render(s.Client.Scheme(), driver.Config{
		Namespace: here, Images: s.Environment.Images, Settings: map[string]string{}, DependencyHashes: found.config.DependencyHashes,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.cluster.Refuse(errors.New("no room"), "apply Secret")
	changes := s.set(t.Context(), found, objects)
	var applied []string
	for _, write := range s.cluster.Sent() {
		if strings.HasPrefix(write, "apply Deployment") || strings.HasPrefix(write, "apply DaemonSet") {
			applied = append(applied, write)
		}
	}
	if len(applied) > 0 {
		t.Errorf("applied all the same: %v", applied)
	}
	failures := changes.With(apply.Failed)
	if len(failures) != 1 || failures[0].Subject.Kind != "Secret" || strings.Contains(fmt.Sprint(failures.Err()), plain) {
		t.Errorf("failures %v", failures.Err())
	}
	s = newTrip(t, d, cloudConfig("a"), diskKeys(plain))
	if failed := s.set(t.Context(), s.observeDerived(t), objects).With(apply.Failed); len(failed) > 0 {
		t.Errorf("failures %v", failed.Err())
	}
	if diff := cmp.Diff("a "+plain, string(canned.Written[corev1.Secret](t, s.cluster, "apply Secret "+here+"/disk-config").Data["conf"])); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	if text := fmt.Sprint(s.applier.Mutations); strings.Contains(text, plain) {
		t.Errorf("remembered in plain text: %s", text)
	}
}
