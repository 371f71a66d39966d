package main

import (
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/canned"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/derived"
	"github.com/csi-operators/csi-operators/internal/driver/vsphere"
	"github.com/csi-operators/csi-operators/internal/manager"
	centers "github.com/csi-operators/csi-operators/internal/vsphere"
	"github.com/csi-operators/csi-operators/internal/vsphere/policy"
)

// unasked are the vCenters of a cluster that nobody asks.
func unasked(t *testing.T, objects ...client.Object) *vCenters {
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
	v := unasked(t)
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
