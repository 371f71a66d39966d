package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/openstack"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/rbac"
	"github.com/csi-operators/csi-operators/internal/driver"
	stack "github.com/csi-operators/csi-operators/internal/driver/openstack"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
	"github.com/csi-operators/csi-operators/test/env/fakeopenstack"
)

func startCloud(t *testing.T) *fakeopenstack.Cloud {
	t.Helper()
	faked, err := fakeopenstack.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(faked.Close)
	faked.SetZones([]fakeopenstack.Zone{{Name: "a"}}, []fakeopenstack.Zone{{Name: "a"}, {Name: "b"}})
	return faked
}

// asking has a cluster with a Secret and perhaps the CA certificates of the cloud.
func asking(t *testing.T, secret map[string][]byte, ca []byte, asks driver.Cloud) *cloud {
	t.Helper()
	asks.Secret, asks.CA = "cloud-keys", client.ObjectKey{Namespace: "there", Name: "cloud"}
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "cloud-keys"}, Data: secret}}
	if ca != nil {
		objects = append(objects, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "there", Name: "cloud"}, Data: map[string]string{driver.CloudCAKey: string(ca)},
		})
	}
	cluster := canned.New(scheme, objects...)
	from := &derived.Source{Client: cluster, Live: cluster, Namespace: "here", Driver: driver.Driver{Cloud: &asks}}
	return newCloud(asks, secretSource(from))
}

func TestACloudIsAskedWithTheSecretAndTheCAOfTheCluster(t *testing.T) {
	faked, other := startCloud(t), startCloud(t)
	keys := map[string][]byte{stack.CloudsYAML: faked.CloudsYAML(false)}
	with := func(ca []byte) map[string][]byte {
		return map[string][]byte{stack.CloudsYAML: keys[stack.CloudsYAML], stack.CACert: ca}
	}
	for name, tc := range map[string]struct {
		secret map[string][]byte
		ca     []byte
		reason string
	}{
		"the CA is in the ConfigMap":         {secret: keys, ca: faked.CA},
		"the CA is in the Secret":            {secret: with(faked.CA)},
		"the ConfigMap is the newer one":     {secret: with(other.CA), ca: faked.CA},
		"no CA":                              {secret: keys, reason: "CloudCertificateNotTrusted"},
		"another CA":                         {secret: with(faked.CA), ca: other.CA, reason: "CloudCertificateNotTrusted"},
		"a CA that is no PEM":                {secret: keys, ca: []byte("no PEM"), reason: "CloudCredentialsInvalid"},
		"a Secret without clouds.yaml":       {secret: map[string][]byte{"other": nil}, reason: "CloudCredentialsInvalid"},
		"a Secret with something else in it": {secret: map[string][]byte{stack.CloudsYAML: []byte("p4ssw0rd")}, reason: "CloudCredentialsInvalid"},
	} {
		asked := asking(t, tc.secret, tc.ca, driver.Cloud{Zones: true})
		asked.SetInputs("a")
		asked.poller.Tick(t.Context())
		trouble := asked.Failure()
		if trouble.Reason != tc.reason || asked.Facts().Known != (tc.reason == "") || (trouble.Message == "") != (tc.reason == "") {
			t.Errorf("%s: %+v, facts %+v", name, trouble, asked.Facts())
		}
		if text := fmt.Sprintf("%+v", trouble); strings.Contains(text, faked.User().Password) || strings.Contains(text, "p4ssw0rd") {
			t.Errorf("%s: a secret is in %s", name, text)
		}
	}
}

func TestWhatIsAskedForIsWhatTheTripGets(t *testing.T) {
	for name, tc := range map[string]struct {
		asks   driver.Cloud
		change func(*fakeopenstack.Cloud)
		ticks  int
		want   driver.CloudFacts
	}{
		"nothing yet": {asks: driver.Cloud{Zones: true, ShareTypes: true}},
		"zones": {asks: driver.Cloud{Zones: true}, ticks: 1,
			want: driver.CloudFacts{Known: true, ComputeZones: []string{"a"}, VolumeZones: []string{"a", "b"}}},
		"zones twice": {asks: driver.Cloud{Zones: true}, ticks: 2,
			want: driver.CloudFacts{Known: true, ComputeZones: []string{"a"}, VolumeZones: []string{"a", "b"}, Repeated: true}},
		"share types": {asks: driver.Cloud{ShareTypes: true}, ticks: 1, want: driver.CloudFacts{Known: true, ShareTypes: []string{"default"}}},
		"share types twice": {asks: driver.Cloud{ShareTypes: true}, ticks: 2,
			want: driver.CloudFacts{Known: true, ShareTypes: []string{"default"}, Repeated: true}},
		"no Manila": {asks: driver.Cloud{ShareTypes: true}, ticks: 2, want: driver.CloudFacts{Known: true, NoService: true},
			change: func(faked *fakeopenstack.Cloud) { faked.SetMissing(fakeopenstack.Manila, true) }},
		"no Manila is no matter for zones": {asks: driver.Cloud{Zones: true}, ticks: 1,
			want:   driver.CloudFacts{Known: true, ComputeZones: []string{"a"}, VolumeZones: []string{"a", "b"}},
			change: func(faked *fakeopenstack.Cloud) { faked.SetMissing(fakeopenstack.Manila, true) }},
		"an error is not no Manila": {asks: driver.Cloud{ShareTypes: true}, ticks: 2,
			change: func(faked *fakeopenstack.Cloud) {
				faked.SetFault(fakeopenstack.Manila, fakeopenstack.Fault{Status: 503})
			}},
	} {
		faked := startCloud(t)
		if tc.change != nil {
			tc.change(faked)
		}
		asked := asking(t, map[string][]byte{stack.CloudsYAML: faked.CloudsYAML(true), stack.CACert: faked.CA}, nil, tc.asks)
		now := time.Now()
		asked.poller.Now = func() time.Time { return now }
		asked.SetInputs("a")
		for range tc.ticks {
			now = now.Add(asked.poller.Tick(t.Context()))
		}
		if diff := cmp.Diff(tc.want, asked.Facts()); diff != "" {
			t.Errorf("%s: facts (-want +got):\n%s", name, diff)
		}
	}
}

// Whoever asks for the CA and the Secret must be told when they change, and may not be held up.
func TestTheTripIsWokenOnceHoweverOftenSomethingChanges(t *testing.T) {
	asked := newCloud(driver.Cloud{}, func(context.Context) (openstack.Credentials, []byte, error) { return openstack.Credentials{}, nil, nil })
	for range 100 {
		asked.wake()
	}
	if got := len(asked.Changed()); got != 1 {
		t.Errorf("%d events", got)
	}
}

// The operator of a driver can read what it asks the cloud with, and watches it.
func TestADriverThatAsksACloudHasTheRightsForIt(t *testing.T) {
	found := 0
	for name, d := range operable() {
		if d.Cloud == nil {
			continue
		}
		found++
		if d.Derived == nil {
			t.Errorf("%s: the right to get Secret %s comes with Driver.Derived", name, d.Cloud.Secret)
			continue
		}
		// The certificates of vCenters are among those that the cluster trusts.
		needed, watched := d.Cloud.CA, false
		if d.Cloud.VCenters {
			needed = d.Cloud.Config
		}
		for _, config := range d.Derived.ConfigMaps {
			watched = watched || config.ObjectKey == needed
		}
		isAsked := false
		for _, credentials := range d.Credentials {
			isAsked = isAsked || credentials.Secret == d.Cloud.Secret
		}
		if !watched || !isAsked {
			t.Errorf("%s: ConfigMap %s is watched: %t, Secret %s is: %t", name, needed, watched, d.Cloud.Secret, isAsked)
		}
		if d.Cloud.VCenters {
			checkRights(t, d, "", "nodes", "", "list", "watch")
			checkRights(t, d, "", "persistentvolumes", "", "list", "watch")
			checkRights(t, d, "storage.k8s.io", "csinodes", "", "list", "watch")
			checkRights(t, d, "", "configmaps", "trusted-ca-bundle", "get")
		}
	}
	if found != 3 {
		t.Errorf("%d drivers ask their cloud, want Cinder, Manila and vSphere", found)
	}
}

// checkRights checks that the operator of a driver has rights to a resource in the whole cluster; a name means of this name, and no other.
func checkRights(t *testing.T, d driver.Driver, group, resource, name string, verbs ...string) {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	rules, _, err := rbac.Rules(d, scheme, driver.ManagedNamespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range verbs {
		granted := slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			named := slices.Contains(rule.ResourceNames, name) || name == "" && len(rule.ResourceNames) == 0
			return named && slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
		})
		if !granted {
			t.Errorf("%s: nothing lets its operator %s %s %s", d.Name, verb, resource, name)
		}
	}
}
