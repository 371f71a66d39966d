package clustercsidriver

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/openshift"
)

// noKeys are what pods of a driver need that has no Secrets yet.
const (
	waitForKeys    = "waiting for Secret storage-system/disk-keys"
	waitForNodes   = "waiting for Secret storage-system/disk-node-keys"
	waitForBundle  = "waiting for ConfigMap storage-system/disk-trusted-ca-bundle, which the network operator fills in"
	waitForMinting = "waiting for Secret storage-system/disk-keys, which shows whether the cloud-credential-operator makes keys for this cluster"
)

func TestWorkloadsWaitForWhatTheirPodsRead(t *testing.T) {
	const trusted = "disk-trusted-ca-bundle"
	certificates := apply.Digest("certificates")
	for name, tc := range map[string]struct {
		change  func(found *seen, s *trip)
		objects []client.Object
		inputs  map[driver.Workload]map[string]string
		holds   driver.Holds
		again   time.Duration
	}{
		"all is there": {
			nil, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{
				driver.Controller: {"disk-keys": "a", trusted: certificates}, driver.Node: {"disk-node-keys": "b", trusted: certificates},
			}, driver.Holds{}, 0,
		},
		"no bundle yet": {
			nil, nil, map[driver.Workload]map[string]string{driver.Controller: {"disk-keys": "a"}, driver.Node: {"disk-node-keys": "b"}},
			driver.Holds{driver.Controller: waitForBundle, driver.Node: waitForBundle}, 2 * time.Minute,
		},
		"an empty bundle": {
			func(_ *seen, s *trip) { s.now = began.Add(90 * time.Second) }, []client.Object{bundle("")},
			map[driver.Workload]map[string]string{driver.Controller: {"disk-keys": "a"}, driver.Node: {"disk-node-keys": "b"}},
			driver.Holds{driver.Controller: waitForBundle, driver.Node: waitForBundle}, 30 * time.Second,
		},
		"an empty bundle for long": {
			func(_ *seen, s *trip) { s.now = began.Add(2 * time.Minute) }, []client.Object{bundle("")},
			map[driver.Workload]map[string]string{driver.Controller: {"disk-keys": "a"}, driver.Node: {"disk-node-keys": "b"}}, driver.Holds{}, 0,
		},
		"a cluster without proxies": {
			func(_ *seen, s *trip) { delete(s.Kinds, openshift.ProxyKind()) }, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {"disk-keys": "a"}, driver.Node: {"disk-node-keys": "b"}}, driver.Holds{}, 0,
		},
		"all has gone for the moment": {
			func(found *seen, _ *trip) {
				found.live.secrets = nil
				found.live.deployment.Spec.Template.Annotations = map[string]string{
					driver.DependencyHashAnnotation + "disk-keys": "x", driver.DependencyHashAnnotation + trusted: "y", "other": "z",
				}
				found.live.daemonSet.Spec.Template.Annotations = map[string]string{
					driver.DependencyHashAnnotation + "disk-node-keys": "x", driver.DependencyHashAnnotation + trusted: "y",
				}
			}, nil,
			map[driver.Workload]map[string]string{driver.Controller: {"disk-keys": "x", trusted: "y"}, driver.Node: {"disk-node-keys": "x", trusted: "y"}},
			driver.Holds{}, 0,
		},
		"no Secret of the controller": {
			func(found *seen, _ *trip) { delete(found.live.secrets, "disk-keys") }, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {trusted: certificates}, driver.Node: {"disk-node-keys": "b", trusted: certificates}},
			driver.Holds{driver.Controller: waitForKeys}, 0,
		},
		"a Secret that is of no use yet": {
			func(found *seen, _ *trip) {
				found.live.secrets["disk-keys"] = foundSecret{hash: "c", keys: []string{"id"}}
			},
			[]client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {trusted: certificates}, driver.Node: {"disk-node-keys": "b", trusted: certificates}},
			driver.Holds{driver.Controller: waitForKeys}, 0,
		},
		"no optional Secret, for as long as it may come": {
			func(found *seen, s *trip) {
				delete(found.live.secrets, "disk-node-keys")
				s.now = began.Add(time.Minute)
			}, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {"disk-keys": "a", trusted: certificates}, driver.Node: {trusted: certificates}},
			driver.Holds{driver.Node: waitForNodes}, time.Minute,
		},
		"no optional Secret, nor its request yet": {
			func(found *seen, _ *trip) {
				delete(found.live.secrets, "disk-node-keys")
				delete(found.live.requests, "disk-node-request")
			}, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {"disk-keys": "a", trusted: certificates}, driver.Node: {trusted: certificates}},
			driver.Holds{driver.Node: waitForNodes}, 2 * time.Minute,
		},
		"no optional Secret for long": {
			func(found *seen, s *trip) {
				delete(found.live.secrets, "disk-node-keys")
				s.now = began.Add(time.Hour)
			}, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {"disk-keys": "a", trusted: certificates}, driver.Node: {trusted: certificates}},
			driver.Holds{}, 0,
		},
		"it is not known yet whether there will be optional keys": {
			func(found *seen, _ *trip) {
				found.live.secrets = nil
				found.config.CredentialsMode = operatorv1.CloudCredentialsModeDefault
			}, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {trusted: certificates}, driver.Node: {trusted: certificates}},
			driver.Holds{driver.Controller: waitForKeys, driver.Node: waitForMinting}, 2 * time.Minute,
		},
		"the cloud's own certificates": {
			func(found *seen, _ *trip) { found.config.CloudCA = "of the cloud" }, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{
				driver.Controller: {"disk-keys": "a", trusted: certificates, "disk-cloud-ca-bundle": apply.Digest("of the cloud")},
				driver.Node:       {"disk-node-keys": "b", trusted: certificates},
			}, driver.Holds{}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk(), tc.objects...)
			_, result := healthy()
			found := result.seen
			if tc.change != nil {
				tc.change(&found, trip)
			}
			if err := trip.inputs(t.Context(), &found); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.inputs, found.config.DependencyHashes) + cmp.Diff(tc.holds, found.holds); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if found.again != tc.again {
				t.Errorf("looks again in %s, want %s", found.again, tc.again)
			}
		})
	}
}

func TestABundleThatCantBeReadIsAnError(t *testing.T) {
	trip := newTrip(t, disk())
	trip.cluster.Refuse(errors.New("no route"), "get ConfigMap disk-trusted-ca-bundle")
	_, result := healthy()
	if err := trip.inputs(t.Context(), &result.seen); err == nil || err.Error() != "read ConfigMap disk-trusted-ca-bundle: no route" {
		t.Error(err)
	}
}

// Clocks may differ: what was made in the future is not waited for any longer.
func TestNobodyWaitsLongerThanTwoMinutes(t *testing.T) {
	trip := newTrip(t, disk())
	for age, want := range map[time.Duration]time.Duration{
		-time.Hour: 2 * time.Minute, 0: 2 * time.Minute, time.Minute: time.Minute, 2 * time.Minute: 0, time.Hour: 0,
	} {
		one := bundle("")
		one.CreationTimestamp = metav1.NewTime(began.Add(-age))
		if got := trip.restOfWait(one); got != want {
			t.Errorf("made %s ago: %s, want %s", age, got, want)
		}
	}
}

func TestWhichHashOfASecretCounts(t *testing.T) {
	credentials := disk().Credentials
	minting := driver.Config{Kinds: allKinds(), CredentialsMode: operatorv1.CloudCredentialsModeMint}
	passing := driver.Config{Kinds: allKinds(), CredentialsMode: operatorv1.CloudCredentialsModePassthrough}
	keys := []string{"credentials"}
	ofRequest := cloudcredentialv1.Namespace + "/disk-node-request"
	for name, tc := range map[string]struct {
		cfg         driver.Config
		credentials driver.Credentials
		found       foundSecret
		want        string
	}{
		"its own":                                       {minting, credentials[0], foundSecret{hash: "new", keys: keys}, "new"},
		"the one before, while it is gone":              {minting, credentials[0], foundSecret{}, "before"},
		"the one before, while it is made":              {minting, credentials[0], foundSecret{hash: "new", keys: []string{"id"}}, "before"},
		"an optional one":                               {minting, credentials[1], foundSecret{hash: "new", keys: keys, request: ofRequest}, "new"},
		"an optional one that goes with its request":    {passing, credentials[1], foundSecret{hash: "new", keys: keys, request: ofRequest}, ""},
		"an optional one that somebody has made":        {passing, credentials[1], foundSecret{hash: "new", keys: keys}, "new"},
		"an optional one of another request":            {passing, credentials[1], foundSecret{hash: "new", keys: keys, request: "other/request"}, "new"},
		"an optional one with the cluster's own keys":   {minting, credentials[1], foundSecret{hash: "new", keys: keys, passedThrough: true}, ""},
		"one of the controller with the cluster's keys": {minting, credentials[0], foundSecret{hash: "new", keys: keys, passedThrough: true}, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lastingSecret(tc.cfg, tc.credentials, tc.found, "before"); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
