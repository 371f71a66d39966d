package vspherehealth

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

func TestFailureDomainsWithoutTheirTagsAreFound(t *testing.T) {
	const begin = "warn ZoneTags 1: vCenter vc1: tags are missing on the compute clusters, or on the datacenter or folder above them: "
	const end = ". The driver does not know the topology of these nodes. Attach the tags"
	const region, zone = `openshift-region "region-dc1" for failure domain fd-dc1`, `openshift-zone "zone-dc1" for failure domain fd-dc1`
	attach := func(regionTo, zoneTo vsphere.Ref) func(*input, *vsphere.VCenter) {
		return func(_ *input, vc *vsphere.VCenter) {
			vc.Attachments[0].Object, vc.Attachments[1].Object = regionTo, zoneTo
		}
	}
	dc, folder, cluster := ref("Datacenter", "dc1"), ref("Folder", "dc1-f"), ref("ClusterComputeResource", "dc1-c1")
	affine := func(region configv1.VSphereFailureDomainRegionType, zone configv1.VSphereFailureDomainZoneType, then func(*input, *vsphere.VCenter)) func(*input, *vsphere.VCenter) {
		return func(in *input, vc *vsphere.VCenter) {
			in.want.FailureDomains[0].RegionAffinity = &configv1.VSphereFailureDomainRegionAffinity{Type: region}
			in.want.FailureDomains[0].ZoneAffinity = &configv1.VSphereFailureDomainZoneAffinity{Type: zone}
			then(in, vc)
		}
	}
	inDatacenter, inCluster, zoneIsCluster := configv1.DatacenterFailureDomainRegion, configv1.ComputeClusterFailureDomainRegion, configv1.ComputeClusterFailureDomainZone
	run(t, healthy, map[string]row{
		"ZoneTags: no categories": {func(_ *input, vc *vsphere.VCenter) { vc.Categories = nil }, []string{
			"warn ZoneTags 2: vCenter vc1: tags are missing on the compute clusters, or on the datacenter or folder above them: " + region + ", " + zone + end,
		}},
		"ZoneTags: the region is attached to another cluster": {attach(ref("Datacenter", "dc9"), cluster), []string{begin + region + end}},
		"ZoneTags: the zone is attached to another cluster":   {attach(dc, ref("ClusterComputeResource", "dc1-c2")), []string{begin + zone + end}},
		"ZoneTags: the tag of another zone":                   {func(_ *input, vc *vsphere.VCenter) { vc.Tags[1].Name = "zone-9" }, []string{begin + zone + end}},
		"ZoneTags: a tag of another category":                 {func(_ *input, vc *vsphere.VCenter) { vc.Tags[1].CategoryID = "cr" }, []string{begin + zone + end}},
		"ZoneTags: on the folder above":                       {attach(folder, folder), nil},
		"ZoneTags: region by datacenter":                      {affine(inDatacenter, zoneIsCluster, attach(dc, cluster)), nil},
		"ZoneTags: region by datacenter, on the folder":       {affine(inDatacenter, zoneIsCluster, attach(folder, cluster)), []string{begin + region + end}},
		"ZoneTags: region by cluster":                         {affine(inCluster, zoneIsCluster, attach(cluster, cluster)), nil},
		"ZoneTags: region by cluster, on the datacenter":      {affine(inCluster, zoneIsCluster, attach(dc, cluster)), []string{begin + region + end}},
		"ZoneTags: zone by cluster, on the datacenter":        {affine(inDatacenter, zoneIsCluster, attach(dc, dc)), []string{begin + zone + end}},
	})
	run(t, single, map[string]row{
		"ZoneTags: one failure domain needs none": {func(in *input, vc *vsphere.VCenter) {
			in.want.FailureDomains, vc.Tags = []configv1.VSpherePlatformFailureDomainSpec{domainOf("vc1", "dc1")}, nil
			in.cluster.vCenters = []configv1.VSpherePlatformVCenterSpec{{Server: "vc1", Datacenters: []string{"dc1"}}}
		}, nil},
	})
}

func TestHostGroupsThatAreNotAsConfiguredAreFound(t *testing.T) {
	const begin, end = ": vCenter vc1: host groups differ from the Infrastructure: ", ". VMs can run outside of the zone of their volumes. Create " +
		"the missing objects"
	group := func(hosts, vms, rule string, then func(*vsphere.VCenter)) func(*input, *vsphere.VCenter) {
		return func(in *input, vc *vsphere.VCenter) {
			in.want.FailureDomains[0].ZoneAffinity = &configv1.VSphereFailureDomainZoneAffinity{
				Type: configv1.HostGroupFailureDomainZone, HostGroup: &configv1.VSphereFailureDomainHostGroup{HostGroup: hosts, VMGroup: vms, VMHostRule: rule},
			}
			if then != nil {
				then(vc)
			}
		}
	}
	run(t, healthy, map[string]row{
		"HostGroups: well":            {group("hosts", "vms", "rule", nil), nil},
		"HostGroups: empty":           {group("none", "vms", "rule", nil), []string{"warn HostGroups 1" + begin + "failure domain fd-dc1: host group none is empty" + end}},
		"HostGroups: the zone's tag":  {group("hosts", "vms", "rule", func(vc *vsphere.VCenter) { vc.Attachments = vc.Attachments[:2] }), []string{"warn HostGroups 1" + begin + `failure domain fd-dc1: host esx1.dc1 lacks tag openshift-zone "zone-dc1"` + end}},
		"HostGroups: an unknown host": {group("hosts", "vms", "rule", func(vc *vsphere.VCenter) { vc.Clusters[0].HostGroups["hosts"][0].Value = "host-9" }), []string{"warn HostGroups 1" + begin + `failure domain fd-dc1: host host-9 lacks tag openshift-zone "zone-dc1"` + end}},
		"HostGroups: nothing of it is there": {group("a", "b", "c", nil), []string{
			"warn HostGroups 3" + begin + "failure domain fd-dc1: VM group b does not exist, failure domain fd-dc1: VM-host rule c does not exist, failure " +
				"domain fd-dc1: " +
				"host group a does not exist" + end,
		}},
		"HostGroups: the zone's tag is not asked for on the cluster": {group("hosts", "vms", "rule", func(vc *vsphere.VCenter) {
			vc.Attachments[1].Object = ref("ClusterComputeResource", "other")
		}), nil},
	})
}

func TestMissingPrivilegesAreFound(t *testing.T) {
	const user = ": vCenter vc1: user ocp@vsphere.local lacks privileges "
	const end = ". Add them to the role of the user"
	pool := func(in *input, path string) { in.want.FailureDomains[0].Topology.ResourcePool = path }
	owned := func(in *input, vc *vsphere.VCenter) {
		pool(in, "/dc1/host/c1/Resources/ocp")
		vc.Pools = append(vc.Pools, vsphere.ResourcePool{Ref: ref("ResourcePool", "own"), Path: "/dc1/host/c1/Resources/ocp"})
	}
	run(t, healthy, map[string]row{
		"AccountPermissions": {func(_ *input, vc *vsphere.VCenter) {
			vc.Privileges[0].Missing, vc.Privileges[2].Missing = []string{"Cns.Searchable", "StorageProfile.View"}, []string{"Datastore.Browse"}
		}, []string{"warn AccountPermissions 2" + user + "on datastore /dc1/datastore/ds (Datastore.Browse), on vcenter / (Cns.Searchable, StorageProfile.View)" + end}},
		"ComputeClusterPermissions": {func(_ *input, vc *vsphere.VCenter) { vc.Privileges[1].Missing = []string{"VApp.Import"} }, []string{
			"warn ComputeClusterPermissions 1" + user + "on cluster /dc1/host/c1 (VApp.Import)" + end,
		}},
		"ComputeClusterPermissions: nodes are in a pool": {func(in *input, vc *vsphere.VCenter) {
			owned(in, vc)
			vc.Privileges[1].Missing = []string{"VApp.Import"}
		}, nil},
		"ComputeClusterPermissions: a cluster of no failure domain": {func(in *input, vc *vsphere.VCenter) {
			owned(in, vc)
			vc.Privileges = append(vc.Privileges, vsphere.Privileges{Kind: vsphere.OnCluster, Path: "/dc1/host/c2", Missing: []string{"VApp.Import"}})
		}, []string{"warn ComputeClusterPermissions 1" + user + "on cluster /dc1/host/c2 (VApp.Import)" + end}},
		"ResourcePoolPermissions": {func(in *input, vc *vsphere.VCenter) {
			owned(in, vc)
			vc.Privileges = append(vc.Privileges, vsphere.Privileges{Kind: vsphere.OnResourcePool, Path: "/dc1/host/c1/Resources/ocp", Missing: []string{"VApp.Import"}})
		}, []string{"warn ResourcePoolPermissions 1" + user + "on resource pool /dc1/host/c1/Resources/ocp (VApp.Import)" + end}},
		"ResourcePoolPermissions: the pool of the cluster": {func(_ *input, vc *vsphere.VCenter) {
			vc.Privileges = append(vc.Privileges, vsphere.Privileges{Kind: vsphere.OnResourcePool, Path: "/dc1/host/c1/Resources", Missing: []string{"VApp.Import"}})
		}, nil},
	})
	run(t, single, map[string]row{
		"ComputeClusterPermissions: the only place has a pool": {func(in *input, vc *vsphere.VCenter) {
			owned2 := "/dc1/host/c1/Resources/ocp"
			in.config.Workspace.ResourcePool = owned2
			vc.Pools = append(vc.Pools, vsphere.ResourcePool{Ref: ref("ResourcePool", "own"), Path: owned2})
			vc.Privileges[1].Missing = []string{"VApp.Import"}
		}, nil},
	})
}

func TestNamesOfServersInUpperCaseAreNoProblem(t *testing.T) {
	in := healthy()
	in.cluster.vCenters[0].Server, in.want.FailureDomains[0].Server = "VC1", "Vc1"
	if found := evaluate(in, nil); len(found) > 0 {
		t.Errorf("%v", lines(found))
	}
	// They are compared all the same.
	in.want.FailureDomains[0].Topology.Datacenter = "elsewhere"
	if found := lines(evaluate(in, nil)); len(found) != 1 {
		t.Errorf("%v", found)
	}
}
