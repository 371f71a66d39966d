package vspherehealth

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// noon is the present of all tests.
func noon() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

func ref(kind, value string) vsphere.Ref { return vsphere.Ref{Type: kind, Value: value} }

// vCenterOf is a vCenter with a datacenter, a compute cluster with two hosts, a node on each, and all that a failure domain names.
func vCenterOf(server, dc string) vsphere.VCenter {
	at := func(what string) string { return "/" + dc + what }
	host := func(n string) vsphere.Host {
		return vsphere.Host{
			Ref: ref("HostSystem", dc+"-host-"+n), Name: "esx" + n + "." + dc, APIVersion: "8.0.2.0", Version: "8.0.2", Connected: true,
		}
	}
	vm := func(n string) vsphere.VM {
		return vsphere.VM{
			Ref: ref("VirtualMachine", dc+"-vm-"+n), Name: "node-" + n, UUID: dc + "-" + n, Hardware: 19, DiskUUID: true, Host: ref("HostSystem", dc+"-host-"+n),
		}
	}
	cluster := ref("ClusterComputeResource", dc+"-c1")
	return vsphere.VCenter{
		Server: server, Answered: noon(), Version: "8.0.2", APIVersion: "8.0.2.0", User: "ocp@vsphere.local", CanReadTasks: true,
		Datacenters: []vsphere.Datacenter{{Ref: ref("Datacenter", dc), Path: at(""), Name: dc}},
		Clusters: []vsphere.ComputeCluster{{
			Ref: cluster, Path: at("/host/c1"), Datacenter: at(""), Ancestors: []vsphere.Ref{ref("Folder", dc+"-f"), ref("Datacenter", dc)},
			HostGroups: map[string][]vsphere.Ref{"hosts": {ref("HostSystem", dc+"-host-1")}, "none": {}}, VMGroups: []string{"vms"}, VMHostRules: []string{"rule"},
		}},
		Hosts:      []vsphere.Host{host("1"), host("2")},
		VMs:        []vsphere.VM{vm("1"), vm("2")},
		Datastores: []vsphere.Datastore{{Ref: ref("Datastore", dc+"-ds"), Path: at("/datastore/ds"), Name: "ds", URL: "ds:///" + dc + "/", Type: "VMFS", Datacenter: at(""), Accessible: true, Maintenance: "normal"}},
		Folders:    []vsphere.Folder{{Ref: ref("Folder", dc+"-vms"), Path: at("/vm/ocp")}},
		Pools:      []vsphere.ResourcePool{{Ref: ref("ResourcePool", dc+"-p"), Path: at("/host/c1/Resources")}},
		Categories: []vsphere.Category{{ID: "cr", Name: "openshift-region"}, {ID: "cz", Name: "openshift-zone"}},
		Tags:       []vsphere.Tag{{ID: "tr", Name: "region-" + dc, CategoryID: "cr"}, {ID: "tz", Name: "zone-" + dc, CategoryID: "cz"}},
		Attachments: []vsphere.Attachment{
			{TagID: "tr", Object: ref("Datacenter", dc)}, {TagID: "tz", Object: cluster}, {TagID: "tz", Object: ref("HostSystem", dc+"-host-1")},
		},
		Policies: []vsphere.Policy{{ID: "p-1", Name: "gold"}},
		Privileges: []vsphere.Privileges{
			{Kind: vsphere.OnVCenter, Path: "/"}, {Kind: vsphere.OnCluster, Path: at("/host/c1")}, {Kind: vsphere.OnDatastore, Path: at("/datastore/ds")},
		},
	}
}

func domainOf(server, dc string) configv1.VSpherePlatformFailureDomainSpec {
	return configv1.VSpherePlatformFailureDomainSpec{
		Name: "fd-" + dc, Region: "region-" + dc, Zone: "zone-" + dc, Server: server, Topology: configv1.VSpherePlatformTopology{
			Datacenter: dc, ComputeCluster: "/" + dc + "/host/c1", Datastore: "/" + dc + "/datastore/ds", Folder: "/" + dc + "/vm/ocp",
			ResourcePool: "/" + dc + "/host/c1/Resources",
		},
	}
}

// healthy is a cluster in two vCenters in which nothing is wrong.
func healthy() input {
	long := noon().Add(-time.Hour)
	in := input{now: noon(), snapshot: vsphere.Snapshot{Taken: noon()}, cluster: cluster{
		installed: true, maxVolumes: 100,
		classes: []class{{name: "gold", policy: "gold"}, {name: "plain"}, {name: "url", url: "ds:///dc1/"}, {name: "legacy", datastore: "ds"}},
		volumes: []volume{{name: "pv-1"}, {name: "pv-2", shared: true, zonal: true}},
	}}
	for i := range 2 {
		server, dc := fmt.Sprintf("vc%d", i+1), fmt.Sprintf("dc%d", i+1)
		in.snapshot.VCenters = append(in.snapshot.VCenters, vCenterOf(server, dc))
		in.want.FailureDomains = append(in.want.FailureDomains, domainOf(server, dc))
		in.cluster.vCenters = append(in.cluster.vCenters, configv1.VSpherePlatformVCenterSpec{Server: server, Datacenters: []string{dc}})
		in.config.VCenters = append(in.config.VCenters, cloudconfig.VCenterConfig{Server: server, Datacenters: []string{"/" + dc}})
		for n := range 2 {
			uuid := fmt.Sprintf("%s-%d", dc, n+1)
			in.cluster.nodes = append(in.cluster.nodes, node{name: uuid, uuid: uuid, providerID: "vsphere://" + uuid, created: long})
		}
	}
	return in
}

// single is the same in the first vCenter alone, without failure domains.
func single() input {
	in := healthy()
	in.snapshot.VCenters, in.config.VCenters, in.cluster.nodes = in.snapshot.VCenters[:1], in.config.VCenters[:1], in.cluster.nodes[:2]
	in.want.FailureDomains, in.cluster.vCenters = nil, nil
	in.config.Workspace = cloudconfig.Workspace{Server: "vc1", Datacenter: "dc1", Datastore: "ds", Folder: "/dc1/vm/ocp"}
	return in
}

// lines are findings as text.
func lines(found []finding) []string {
	var all []string
	for _, one := range found {
		all = append(all, fmt.Sprintf("%s %s %d: %s", one.severity, one.check, one.objects, one.message))
	}
	return all
}

// row changes a healthy cluster, and says what is found then.
type row struct {
	change func(in *input, vc *vsphere.VCenter)
	want   []string
}

// run holds each row against the checks. The names of the rows count as covered if they begin with that of a check.
func run(t *testing.T, from func() input, rows map[string]row) {
	t.Helper()
	for name, test := range rows {
		t.Run(name, func(t *testing.T) {
			in := from()
			test.change(&in, &in.snapshot.VCenters[0])
			found := evaluate(in, nil)
			if diff := cmp.Diff(test.want, lines(found)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, one := range found {
				for _, check := range checks() {
					if check.name == one.check && one.severity > check.most {
						t.Errorf("%s has severity %s, at most %s is announced", one.check, one.severity, check.most)
					}
				}
			}
		})
	}
}

func TestNothingIsWrongWithAHealthyCluster(t *testing.T) {
	for name, in := range map[string]input{"several": healthy(), "single": single()} {
		if found := evaluate(in, nil); len(found) > 0 {
			t.Errorf("%s: %v", name, lines(found))
		}
	}
}

func diff(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// domainWithGroup is a failure domain that is a host group.
func domainWithGroup() configv1.VSpherePlatformFailureDomainSpec {
	domain := domainOf("vc1", "dc1")
	domain.ZoneAffinity = &configv1.VSphereFailureDomainZoneAffinity{
		Type: configv1.HostGroupFailureDomainZone, HostGroup: &configv1.VSphereFailureDomainHostGroup{HostGroup: "hosts", VMGroup: "vms", VMHostRule: "rule"},
	}
	return domain
}
