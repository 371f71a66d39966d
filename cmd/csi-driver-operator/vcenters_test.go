package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/canned"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/derived"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/vsphere"
	"github.com/csi-operators/csi-operators/internal/manager"
	centers "github.com/csi-operators/csi-operators/internal/vsphere"
	"github.com/csi-operators/csi-operators/internal/vsphere/policy"
)

const cloudConfig = "global:\n  insecureFlag: true\nvcenter:\n  vc1:\n    server: vc1.example.com\n    datacenters: [dc1]\n"

// joined are the vCenters of a cluster that nobody asks.
func joined(t *testing.T, objects ...client.Object) *vCenters {
	t.Helper()
	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cluster, d := canned.New(scheme, objects...), vsphere.Driver()
	controller := &clustercsidriver.Reconciler{
		Client: cluster, Live: cluster, Driver: d, Derived: &derived.Source{Client: cluster, Live: cluster, Driver: d, Namespace: "here"},
	}
	return newVCenters(controller)
}

// answered is a vCenter with nothing of the cluster. Whoever writes there has no privilege.
func answered(server string) (centers.Snapshot, centers.Want) {
	now := time.Now()
	seen := centers.Snapshot{Taken: now, VCenters: []centers.VCenter{{
		Server: server, Answered: now, User: "u@d", Datacenters: []centers.Datacenter{{Name: "dc1", Path: "/dc1", Ref: centers.Ref{Type: "Datacenter", Value: "d"}}},
		Datastores: []centers.Datastore{{Ref: centers.Ref{Type: "Datastore", Value: "ds"}, Name: "ds", Path: "/dc1/datastore/ds", Datacenter: "/dc1", Accessible: true}},
		Policies:   []centers.Policy{{ID: "1", Name: policy.Name("x"), Other: true}},
	}}}
	return seen, centers.Want{InfrastructureID: "x", FailureDomains: []configv1.VSpherePlatformFailureDomainSpec{{
		Name: "fd", Server: server, Topology: configv1.VSpherePlatformTopology{Datacenter: "dc1", Datastore: "/dc1/datastore/ds"},
	}}}
}

// The policy of the name is somebody else's.
func TestTroubleWithThePolicyCountsOnlyWhileItIsToBeKept(t *testing.T) {
	v := joined(t)
	seen, want := answered("vc1.example.com")
	v.Keep()
	v.keeper.Sync(t.Context(), seen, want, nil)
	if trouble := v.Trouble(); trouble.Reason != policy.PolicyNotOurs || !strings.Contains(trouble.Message, policy.Name("x")) {
		t.Errorf("%+v", trouble)
	}
	if v.Facts().StoragePolicy != "" {
		t.Errorf("%+v", v.Facts())
	}
	// An administrator takes the StorageClass over, and nobody looks at the policy any more.
	v.Leave()
	if trouble := v.Trouble(); trouble != (derived.CloudTrouble{}) {
		t.Errorf("%+v", trouble)
	}
	v.Keep()
	if v.Trouble().Reason == "" {
		t.Error("it is forgotten, and is as it was")
	}
}

func TestNothingIsWrittenBeforeTheChecksHavePassed(t *testing.T) {
	v := joined(t)
	seen, want := answered("vc1.example.com")
	act := func() bool {
		v.act(t.Context(), seen, want, nil)
		return v.keeper.State() != policy.State{}
	}
	if act() {
		t.Error("nobody asked for a policy")
	}
	v.Keep()
	if act() {
		t.Error("the checks have said nothing yet")
	}
	if v.Undo(); !act() {
		t.Error("a removal waits for no checks")
	}
}

func TestARemovalSaysWhatIsLeftAndWhy(t *testing.T) {
	v := joined(t)
	seen, want := answered("vc1.example.com")
	v.Keep()
	v.keeper.Sync(t.Context(), seen, want, nil)
	// The trouble with keeping it is none of the removal.
	if left := v.Undo(); left != "the storage policy, until the vCenters have answered" {
		t.Errorf("%q", left)
	}
	away := seen
	away.VCenters = []centers.VCenter{seen.VCenters[0]}
	away.VCenters[0].Err = &centers.Error{Server: "vc1.example.com", What: "log in", Reason: centers.Timeout, Why: "no answer in time"}
	v.keeper.Sync(t.Context(), away, want, nil)
	if left := v.Undo(); !strings.Contains(left, "vc1.example.com has to answer") || !strings.Contains(left, "no answer in time") {
		t.Errorf("%q", left)
	}
	v.keeper.Sync(t.Context(), seen, want, nil)
	if left := v.Undo(); left != "" {
		t.Errorf("nothing there is ours: %q", left)
	}
}

func TestTheVCentersAreAskedWithTheConfigurationTheSecretAndTheCertificatesOfTheCluster(t *testing.T) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: driver.ManagedNamespace, Name: "kube-cloud-config"}, Data: map[string]string{
		"cloud.conf": cloudConfig,
	}}
	roots := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: driver.ManagedNamespace, Name: "trusted-ca-bundle"}, Data: map[string]string{
		driver.TrustedCAKey: "PEM",
	}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "vmware-vsphere-cloud-credentials"}, Data: map[string][]byte{
		"vc1.example.com.username": []byte("u@d"), "vc1.example.com.password": []byte("p"),
	}}
	for name, tc := range map[string]struct {
		objects []client.Object
		roots   string
		failure string
	}{
		"all":             {[]client.Object{config, roots, secret}, "PEM", ""},
		"no bundle":       {[]client.Object{config, secret}, "", ""},
		"no Secret":       {[]client.Object{config, roots}, "", "read Secret vmware-vsphere-cloud-credentials"},
		"no ConfigMap":    {[]client.Object{secret}, "", "read ConfigMap openshift-config-managed/kube-cloud-config"},
		"an empty Secret": {[]client.Object{config, &corev1.Secret{ObjectMeta: secret.ObjectMeta}}, "", "has no key vc1.example.com.username"},
	} {
		v := joined(t, tc.objects...)
		parsed, logins, certificates, err := v.poller.Source(t.Context())
		if tc.failure != "" {
			if err == nil || !strings.Contains(err.Error(), tc.failure) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || string(certificates) != tc.roots || logins["vc1.example.com"].Password != "p" || !parsed.VCenters[0].Insecure || len(v.parsed().VCenters) != 1 {
			t.Errorf("%s: %v, %q, %v, %+v", name, err, certificates, logins, parsed)
		}
	}
}

// notes are events.
type notes struct{ all []string }

func (n *notes) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	n.all = append(n.all, fmt.Sprintf(note, args...))
}

func TestADeedIsAnEventThatTheClusterTakes(t *testing.T) {
	v := joined(t, &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.vsphere.vmware.com"}})
	recorder := &notes{}
	v.health.Recorder = recorder
	v.keeper.Tell(policy.Deed{Reason: "DatastoreTagged", Message: strings.Repeat("long path ", 200)})
	if len(recorder.all) != 1 || len(recorder.all[0]) > 1024 {
		t.Errorf("%d events", len(recorder.all))
	}
}
