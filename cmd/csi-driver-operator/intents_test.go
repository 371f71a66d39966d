package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	centers "github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/policy"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/vsphere"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// unasked are the vCenters of a cluster that nobody asks.
func unasked(t *testing.T, objects ...client.Object) *vCenters {
	t.Helper()
	scheme, err := kube.Scheme()
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
	v := unasked(t)
	seen, want := answered("vc1.example.com")
	v.Manage(true)
	v.keeper.Sync(t.Context(), seen, want, nil)
	if trouble := v.Failure(); trouble.Reason != policy.PolicyNotOurs || !strings.Contains(trouble.Message, policy.Name("x")) {
		t.Errorf("%+v", trouble)
	}
	if v.Facts().StoragePolicy != "" {
		t.Errorf("%+v", v.Facts())
	}
	// An administrator takes the StorageClass over, and nobody looks at the policy any more.
	v.Manage(false)
	if trouble := v.Failure(); trouble != (derived.CloudFailure{}) {
		t.Errorf("%+v", trouble)
	}
	v.Manage(true)
	if v.Failure().Reason == "" {
		t.Error("it is forgotten, and is as it was")
	}
}

// notes are events.
type notes struct{ all []string }

func (n *notes) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	n.all = append(n.all, fmt.Sprintf(note, args...))
}

func TestADeedIsAnEventThatTheClusterTakes(t *testing.T) {
	v := unasked(t, &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.vsphere.vmware.com"}})
	recorder := &notes{}
	v.health.Recorder = recorder
	v.keeper.Record(policy.Event{Reason: "DatastoreTagged", Message: strings.Repeat("long path ", 200)})
	if len(recorder.all) != 1 || len(recorder.all[0]) > 1024 {
		t.Errorf("%d events", len(recorder.all))
	}
}

// Without the Secret, nobody can ask whether the trouble lasts. What has been found stays, and so does what is installed.
func TestWhenTheCredentialsHaveGoneNoOldTroubleIsTold(t *testing.T) {
	j := joinWell(t)
	j.Manage(true)
	j.pass(t, 4)
	j.center.Away()
	if j.pass(t, 2); j.Failure().Reason != string(centers.NoConnection) {
		t.Fatalf("%+v", j.Failure())
	}
	poll := func(hash string) driver.CloudFacts {
		j.pollWith(t, hash)
		return j.controller.Derived.Facts()
	}
	poll("")
	<-j.Changed()
	j.pass(t, 1)
	if facts := poll(""); j.Failure() != (derived.CloudFailure{}) || len(j.Changed()) != 1 || !facts.Known || facts.StoragePolicy != policyName {
		t.Errorf("%+v, %d events, %+v", j.Failure(), len(j.Changed()), facts)
	}
	poll("another")
	if j.pass(t, 1); j.Failure().Reason != string(centers.NoConnection) || j.Failure().Since.Before(j.now.Add(-centers.Interval)) {
		t.Errorf("with credentials, %+v", j.Failure())
	}
}
