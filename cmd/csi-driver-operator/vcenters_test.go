package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
	"github.com/csi-operators/csi-operators/test/env/fakevsphere"
)

const (
	vSphere    = "csi.vsphere.vmware.com"
	infra      = "dev-x1"
	policyName = "openshift-storage-policy-" + infra
	unanswered = "the storage policy, until the vCenters have answered"
)

// joined is the join in a cluster, by a clock that the test turns.
type joined struct {
	*vCenters
	center *fakevsphere.VCenter
	// cache and cluster have different objects: Secrets and the CA certificates are in no cache.
	cache, cluster *canned.Cluster
	controller     *clustercsidriver.Reconciler
	events         *canned.Events
	facts          driver.CloudFacts
	now            time.Time
}

func startVCenter(t *testing.T) *fakevsphere.VCenter {
	t.Helper()
	center, err := fakevsphere.Start(fakevsphere.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(center.Close)
	return center
}

func configOf(content string) *corev1.ConfigMap {
	made := &corev1.ConfigMap{Data: map[string]string{cloudconfig.ConfigKey: content}}
	made.Namespace, made.Name = operable()[vSphere].Cloud.Config.Namespace, operable()[vSphere].Cloud.Config.Name
	return made
}

func secretOf(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: operable()[vSphere].Cloud.Secret}, Data: data}
}

func bundleOf(roots []byte) *corev1.ConfigMap {
	made := &corev1.ConfigMap{Data: map[string]string{driver.TrustedCAKey: string(roots)}}
	made.Namespace, made.Name = driver.ClusterCABundle().Namespace, driver.ClusterCABundle().Name
	return made
}

// join joins a vCenter with a trip. The cache has what it is given first, the cluster what it is given then.
func join(t *testing.T, center *fakevsphere.VCenter, cached, live []client.Object) *joined {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	made := &joined{center: center, cache: canned.New(scheme, cached...), cluster: canned.New(scheme, live...), events: &canned.Events{}, now: time.Now()}
	d := operable()[vSphere]
	made.controller = &clustercsidriver.Reconciler{
		Client: made.cache, Live: made.cluster, Driver: d,
		Derived: &derived.Source{Client: made.cache, Live: made.cluster, Namespace: "here", Driver: d},
	}
	made.vCenters = newVCenters(made.controller)
	made.health.Recorder = made.events
	made.found = func() driver.CloudFacts { return made.facts }
	clock := func() time.Time { return made.now }
	made.poller.Now, made.keeper.Now = clock, clock
	made.poller.Want = func(context.Context) (vsphere.Want, error) { return vsphere.Want{InfrastructureID: infra}, nil }
	made.controller.Derived.Cloud, made.controller.Derived.CloudResources = made, made
	made.SetInputs("a")
	return made
}

// joinWell joins a vCenter that answers, and whose checks have passed.
func joinWell(t *testing.T) *joined {
	t.Helper()
	center := startVCenter(t)
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: vSphere}}
	made := join(
		t, center, []client.Object{cr, configOf(fakevsphere.INI(false, center))},
		[]client.Object{secretOf(fakevsphere.SecretData(center)), bundleOf(center.CA)},
	)
	made.facts = driver.CloudFacts{Known: true}
	return made
}

// pass lets time pass until so many polls were made.
func (j *joined) pass(t *testing.T, polls int) {
	t.Helper()
	for range polls {
		j.now = j.now.Add(j.poller.Tick(t.Context()))
	}
}

func TestVCentersAreAskedWithTheConfigurationTheSecretAndTheCAOfTheCluster(t *testing.T) {
	center, other := startVCenter(t), startVCenter(t)
	good, keys := configOf(fakevsphere.INI(false, center)), fakevsphere.SecretData(center)
	without := func(field string) map[string][]byte {
		data := fakevsphere.SecretData(center)
		delete(data, cloudconfig.Key(center.Server, field))
		return data
	}
	for name, tc := range map[string]struct {
		cached, live []client.Object
		reason       vsphere.Reason
		says         string
	}{
		"all is there":                {[]client.Object{good}, []client.Object{secretOf(keys), bundleOf(center.CA)}, "", ""},
		"the newer form":              {[]client.Object{configOf(fakevsphere.YAML(false, center))}, []client.Object{secretOf(keys), bundleOf(center.CA)}, "", ""},
		"no CA, and none is needed":   {[]client.Object{configOf(fakevsphere.INI(true, center))}, []client.Object{secretOf(keys)}, "", ""},
		"no CA":                       {[]client.Object{good}, []client.Object{secretOf(keys)}, vsphere.UntrustedCertificate, "unknown CA"},
		"another CA":                  {[]client.Object{good}, []client.Object{secretOf(keys), bundleOf(other.CA)}, vsphere.UntrustedCertificate, "unknown CA"},
		"no password":                 {[]client.Object{good}, []client.Object{secretOf(without("password"))}, cloudconfig.InvalidCredentials, "has no key 127.0.0.1.password"},
		"no user":                     {[]client.Object{good}, []client.Object{secretOf(without("username"))}, cloudconfig.InvalidCredentials, "has no key 127.0.0.1.username"},
		"a Secret in the cache alone": {[]client.Object{good, secretOf(keys)}, nil, cloudconfig.InvalidCredentials, "read Secret vmware-vsphere-cloud-credentials"},
		"no configuration":            {nil, []client.Object{secretOf(keys)}, cloudconfig.InvalidCredentials, "read ConfigMap openshift-config-managed/kube-cloud-config"},
		"a broken configuration": {
			[]client.Object{configOf("[Global]\nuser = \"a\"\npassword = \"" + "p4ssw0rd" + "\n")}, []client.Object{secretOf(keys)},
			cloudconfig.InvalidConfiguration, "line 3 has no closing quote",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := join(t, center, tc.cached, tc.live)
			j.pass(t, 1)
			trouble := j.Failure()
			if trouble.Reason != string(tc.reason) || !strings.Contains(trouble.Message, tc.says) || trouble.Since.IsZero() != (tc.reason == "") {
				t.Errorf("%+v", trouble)
			}
			if text := fmt.Sprintf("%+v %+v %v", trouble, j.poller.Snapshot(), j.Facts()); strings.Contains(text, "p4ss") {
				t.Errorf("a secret is in %s", text)
			}
			if parsed := j.parsed(); (len(parsed.VCenters) == 1) != (tc.reason != cloudconfig.InvalidConfiguration && len(tc.cached) > 0) {
				t.Errorf("the checks know of %+v", parsed)
			}
			if snapshot := (checked{j.vCenters}).Snapshot(); len(snapshot.VCenters) != 1 || (snapshot.VCenters[0].Err == nil) != (tc.reason == "") {
				t.Errorf("%+v", snapshot)
			}
		})
	}
}

// A cluster in which the certificates can't be read does not ask without them.
func TestACABundleThatCantBeReadIsNotTakenForNone(t *testing.T) {
	j := joinWell(t)
	j.cluster.Refuse(fmt.Errorf("no route"), "get ConfigMap trusted-ca-bundle")
	j.pass(t, 1)
	if got := j.Failure(); !strings.Contains(got.Message, "read ConfigMap openshift-config-managed/trusted-ca-bundle: no route") || len(j.center.Requests()) > 0 {
		t.Errorf("%+v, %d requests", got, len(j.center.Requests()))
	}
}

func TestNoStoragePolicyIsMadeBeforeTheTripAndTheChecksAgree(t *testing.T) {
	for name, tc := range map[string]struct {
		intend func(*joined)
		facts  driver.CloudFacts
		made   bool
	}{
		"nobody has said anything":      {func(*joined) {}, driver.CloudFacts{Known: true}, false},
		"it is to be left":              {func(j *joined) { j.Manage(true); j.Manage(false) }, driver.CloudFacts{Known: true}, false},
		"the checks know nothing yet":   {func(j *joined) { j.Manage(true) }, driver.CloudFacts{}, false},
		"the checks refuse the driver":  {func(j *joined) { j.Manage(true) }, driver.CloudFacts{Known: true, Refused: "ESXi is too old"}, false},
		"it is to be kept":              {func(j *joined) { j.Manage(true) }, driver.CloudFacts{Known: true}, true},
		"it is to be kept, after all":   {func(j *joined) { j.Manage(false); j.Manage(true) }, driver.CloudFacts{Known: true}, true},
		"a removal waits for no checks": {func(j *joined) { j.Undo() }, driver.CloudFacts{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := joinWell(t)
			j.facts = tc.facts
			tc.intend(j)
			j.pass(t, 4)
			want := driver.CloudFacts{Known: tc.facts.Known, Refused: tc.facts.Refused}
			if tc.made {
				want.StoragePolicy = policyName
			}
			if diff := cmp.Diff(want, j.Facts()); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			if writes := j.center.Writes(); (len(writes) > 0) != tc.made {
				t.Errorf("written %v", writes)
			}
			if events := j.events.Said; (len(events) > 0) != tc.made || tc.made && !strings.HasPrefix(events[0], "Normal ") {
				t.Errorf("events %q", events)
			}
		})
	}
}

// A ClusterCSIDriver that is gone has no events.
func TestAStoragePolicyIsMadeWhileNobodyCanBeTold(t *testing.T) {
	j := joinWell(t)
	j.cache.Objects = j.cache.Objects[1:]
	j.Manage(true)
	if j.pass(t, 4); j.Facts().StoragePolicy != policyName || len(j.events.Said) > 0 {
		t.Errorf("%+v, %q", j.Facts(), j.events.Said)
	}
}

// What is wrong with the policy is told while the vCenter answers.
func TestTroubleIsTheVCentersOrElseThePolicys(t *testing.T) {
	j := joinWell(t)
	j.center.Deny(j.center.User, "/", "InventoryService.Tagging.CreateCategory")
	j.Manage(true)
	j.pass(t, 2)
	if got := j.Failure(); got.Reason != string(vsphere.NotAuthorized) || !strings.Contains(got.Message, "openshift-"+infra) || got.Since.IsZero() {
		t.Errorf("%+v", got)
	}
	j.center.Away()
	j.pass(t, 2)
	if got := j.Failure(); got.Reason != string(vsphere.NoConnection) || !strings.Contains(got.Message, "vCenter 127.0.0.1") {
		t.Errorf("%+v", got)
	}
	if err := j.center.Back(); err != nil {
		t.Fatal(err)
	}
	j.center.Allow(j.center.User)
	if j.pass(t, 6); j.Failure() != (derived.CloudFailure{}) || j.Facts().StoragePolicy != policyName {
		t.Errorf("%+v, %+v", j.Failure(), j.Facts())
	}
}

// pollWith polls the vCenters with a Secret of this hash, like a trip; empty if there is none.
func (j *joined) pollWith(t *testing.T, hash string) {
	t.Helper()
	secret := map[string]credential.Secret{j.controller.Driver.Cloud.Secret: {Hash: hash}}
	inputs, err := j.controller.Derived.CloudInputs(t.Context(), credential.Found{Secrets: secret})
	if err != nil {
		t.Fatal(err)
	}
	j.controller.Derived.SetInputs(inputs)
}

func TestAnUndoneStoragePolicyIsGoneAndNobodyIsAskedAnyMore(t *testing.T) {
	j := joinWell(t)
	j.Manage(true)
	if j.pass(t, 4); !slices.Contains(j.center.Left(infra), "policy "+policyName) {
		t.Fatalf("left %v", j.center.Left(infra))
	}
	// What the checks say of the driver does not matter to its removal.
	j.facts = driver.CloudFacts{}
	secret := map[string]credential.Secret{j.controller.Driver.Cloud.Secret: {Hash: "a"}}
	undo := func() string {
		left := j.controller.Derived.Undo(credential.Found{Secrets: secret})
		if left == "" {
			j.controller.Derived.SetInputs("")
		} else {
			j.pollWith(t, "a")
		}
		return left
	}
	for range 3 {
		if left := undo(); left != unanswered || j.Facts().StoragePolicy != "" {
			t.Errorf("left %q, %+v", left, j.Facts())
		}
	}
	// Another hash, and the next polls.
	for polls := 0; undo() != "" && polls < 10; polls++ {
		j.pass(t, 1)
	}
	if left := j.center.Left(infra); len(left) > 0 || undo() != "" {
		t.Fatalf("left %v, %q", left, undo())
	}
	j.pass(t, 1)
	j.center.Reset()
	for range 20 {
		undo()
		j.pass(t, 1)
	}
	if requests := j.center.Requests(); len(requests) > 0 {
		t.Errorf("%d requests after the end", len(requests))
	}
	soap, rest := j.center.Sessions()
	if soap != 0 || rest != 0 {
		t.Errorf("%d and %d sessions are open", soap, rest)
	}
	// After a change of mind, it is made anew.
	j.facts = driver.CloudFacts{Known: true}
	j.Manage(true)
	j.pollWith(t, "a")
	if j.pass(t, 4); j.Facts().StoragePolicy != policyName {
		t.Errorf("%+v", j.Facts())
	}
}

func TestUndoSaysWhatItWaitsFor(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after func(*testing.T, *fakevsphere.VCenter)
		says          string
	}{
		"a vCenter that does not answer": {
			func(_ *testing.T, center *fakevsphere.VCenter) { center.Away() },
			func(t *testing.T, center *fakevsphere.VCenter) {
				t.Helper()
				if err := center.Back(); err != nil {
					t.Fatal(err)
				}
			}, "vCenter 127.0.0.1 must answer before the operator can delete the storage policy there",
		},
		"volumes that have the policy": {
			func(_ *testing.T, center *fakevsphere.VCenter) { center.SetInUse(policyName, "pvc-1", "pvc-2") },
			func(_ *testing.T, center *fakevsphere.VCenter) { center.SetInUse(policyName) },
			"2 objects of vCenter 127.0.0.1, such as volumes, use the storage policy " + policyName,
		},
		"a user who may not delete it": {
			func(_ *testing.T, center *fakevsphere.VCenter) {
				center.Deny(center.User, "/", "StorageProfile.Update")
			},
			func(_ *testing.T, center *fakevsphere.VCenter) { center.Allow(center.User) }, "grant it StorageProfile.Update",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := joinWell(t)
			j.Manage(true)
			j.pass(t, 4)
			tc.before(t, j.center)
			j.Undo()
			j.now = j.now.Add(vsphere.Interval)
			j.pass(t, 3)
			left := j.Undo()
			if !strings.Contains(left, tc.says) || strings.HasSuffix(left, ".") || j.Undo() != left {
				t.Errorf("left %q", left)
			}
			tc.after(t, j.center)
			j.now = j.now.Add(vsphere.Interval)
			if j.pass(t, 6); j.Undo() != "" || len(j.center.Left(infra)) > 0 {
				t.Errorf("%q, left %v", j.Undo(), j.center.Left(infra))
			}
		})
	}
}

// Nobody is held up, and nobody is woken more than once.
func TestTripAndChecksAreWokenOnceHoweverOftenSomethingChanges(t *testing.T) {
	j := joinWell(t)
	for range 100 {
		j.poller.Wake()
		j.keeper.Wake()
		j.evaluated()
	}
	if trip, checks := len(j.Changed()), len(checked{j.vCenters}.Changed()); trip != 1 || checks != 1 {
		t.Errorf("%d and %d events", trip, checks)
	}
}

// A trip calls it each time, and a poll costs requests.
func TestTheSameIntentionAsksNobody(t *testing.T) {
	j := joinWell(t)
	j.Manage(true)
	j.pass(t, 4)
	j.poller.Tick(t.Context())
	j.center.Reset()
	for range 10 {
		j.Manage(true)
		j.now = j.now.Add(vsphere.Soon)
		j.poller.Tick(t.Context())
	}
	if requests := j.center.Requests(); len(requests) > 0 {
		t.Errorf("%d requests within %s", len(requests), 10*vsphere.Soon)
	}
	j.Manage(false)
	j.now = j.now.Add(vsphere.Soon)
	if j.poller.Tick(t.Context()); len(j.center.Requests()) == 0 {
		t.Error("nobody is asked after a change of mind")
	}
}
