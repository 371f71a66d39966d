package clustercsidriver

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// Messages about missing inputs of a driver's pods.
const (
	waitForKeys    = "waiting for Secret storage-system/disk-keys"
	waitForNodes   = "waiting for Secret storage-system/disk-node-keys"
	waitForBundle  = "waiting until the network operator writes CA certificates into ConfigMap storage-system/disk-trusted-ca-bundle"
	waitForMinting = "waiting for Secret storage-system/disk-keys, which shows whether the cloud-credential-operator creates keys for this cluster"
)

func TestWorkloadsWaitForWhatTheirPodsRead(t *testing.T) {
	const trusted = "disk-trusted-ca-bundle"
	certificates := apply.Digest(apply.Hashed("certificates"))
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
				found.live.credentials.Secrets = nil
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
			func(found *seen, _ *trip) { delete(found.live.credentials.Secrets, "disk-keys") }, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {trusted: certificates}, driver.Node: {"disk-node-keys": "b", trusted: certificates}},
			driver.Holds{driver.Controller: waitForKeys}, 0,
		},
		"a Secret that is of no use yet": {
			func(found *seen, _ *trip) {
				found.live.credentials.Secrets["disk-keys"] = credential.Secret{Hash: "c", Keys: []string{"id"}}
			},
			[]client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {trusted: certificates}, driver.Node: {"disk-node-keys": "b", trusted: certificates}},
			driver.Holds{driver.Controller: waitForKeys}, 0,
		},
		"no optional Secret, for as long as it may come": {
			func(found *seen, s *trip) {
				delete(found.live.credentials.Secrets, "disk-node-keys")
				s.now = began.Add(time.Minute)
			}, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {"disk-keys": "a", trusted: certificates}, driver.Node: {trusted: certificates}},
			driver.Holds{driver.Node: waitForNodes}, time.Minute,
		},
		"no optional Secret, nor its request yet": {
			func(found *seen, _ *trip) {
				delete(found.live.credentials.Secrets, "disk-node-keys")
				delete(found.live.credentials.Requests, "disk-node-request")
			}, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {"disk-keys": "a", trusted: certificates}, driver.Node: {trusted: certificates}},
			driver.Holds{driver.Node: waitForNodes}, 2 * time.Minute,
		},
		"no optional Secret for long": {
			func(found *seen, s *trip) {
				delete(found.live.credentials.Secrets, "disk-node-keys")
				s.now = began.Add(time.Hour)
			}, []client.Object{bundle("certificates")},
			map[driver.Workload]map[string]string{driver.Controller: {"disk-keys": "a", trusted: certificates}, driver.Node: {trusted: certificates}},
			driver.Holds{}, 0,
		},
		"it is not known yet whether there will be optional keys": {
			func(found *seen, _ *trip) {
				found.live.credentials.Secrets = nil
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
			found.holds, found.again = trip.holds(&found)
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
