package vspherehealth

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

func TestEachThingWrongWithTheConfigurationIsFound(t *testing.T) {
	const same = ". Make Infrastructure cluster and ConfigMap cloud-provider-config agree"
	run(t, healthy, map[string]row{
		"InfrastructureConfig: not configured": {func(in *input, _ *vsphere.VCenter) { in.config.VCenters = in.config.VCenters[:1] }, []string{
			"warn InfrastructureConfig 1: vCenter vc2 is in the Infrastructure, but not in the cloud configuration" + same,
		}},
		"InfrastructureConfig: not listed": {func(in *input, _ *vsphere.VCenter) { in.cluster.vCenters = in.cluster.vCenters[:1] }, []string{
			"warn InfrastructureConfig 2: failure domain fd-dc2 is in vCenter vc2, which the Infrastructure does not list, vCenter vc2 is in the cloud " +
				"configuration, but not in the Infrastructure" + same,
		}},
		"InfrastructureConfig: not used": {func(in *input, _ *vsphere.VCenter) { in.want.FailureDomains = in.want.FailureDomains[:1] }, []string{
			"warn InfrastructureConfig 1: no failure domain is in vCenter vc2" + same,
		}},
		"InfrastructureConfig: nobody knows the configuration": {func(in *input, _ *vsphere.VCenter) { in.config = cloudconfig.Config{} }, nil},
		"DatacenterConsistency": {func(in *input, _ *vsphere.VCenter) {
			in.config.VCenters[0].Datacenters, in.cluster.vCenters[1].Datacenters = []string{"dc9"}, nil
		}, []string{
			"warn DatacenterConsistency 2: datacenters of failure domains are missing from the list of their vCenter: dc1 of failure domain fd-dc1 in " +
				"the cloud configuration, dc2 of failure domain fd-dc2 in the Infrastructure. The driver finds no nodes and volumes in them. Add them to " +
				"the list",
		}},
		"DatacenterConsistency: by path": {func(in *input, _ *vsphere.VCenter) {
			in.config.VCenters[0].Datacenters = []string{"/folder/dc1"}
		}, nil},
	})
}

func TestEachThingWrongWithDatastoresIsFound(t *testing.T) {
	const noStore = ". The driver can't create volumes there. Correct the failure domain, or the user's permissions"
	run(t, healthy, map[string]row{
		"DefaultDatastore": {func(in *input, _ *vsphere.VCenter) {
			in.want.FailureDomains[0].Topology.Datastore = "/dc1/datastore/gone"
		}, []string{
			`degrade DefaultDatastore 1: vCenter vc1: datastores not found, or hidden from the user: "/dc1/datastore/gone" of failure domain fd-dc1` + noStore,
		}},
		"DefaultDatastore: by its name": {func(in *input, _ *vsphere.VCenter) { in.want.FailureDomains[0].Topology.Datastore = "ds" }, nil},
		"DatastoreState": {func(_ *input, vc *vsphere.VCenter) {
			vc.Datastores[0].Maintenance = "inMaintenance"
			vc.Datastores = append(vc.Datastores, vsphere.Datastore{Path: "/dc1/datastore/lost"})
		}, []string{
			"warn DatastoreState 2: vCenter vc1: datastores /dc1/datastore/ds (inMaintenance), /dc1/datastore/lost (not accessible) are unavailable: " +
				"volumes there can't be created or mounted. End the maintenance, or reconnect the datastores",
		}},
	})
	run(t, single, map[string]row{
		"DefaultDatastore: of the configuration": {func(in *input, _ *vsphere.VCenter) { in.config.Workspace.Datastore = "ds2" }, []string{
			`degrade DefaultDatastore 1: vCenter vc1: datastores not found, or hidden from the user: "ds2" of failure domain default` + noStore,
		}},
		"DefaultDatastore: of another datacenter": {func(in *input, vc *vsphere.VCenter) {
			in.config.Workspace.Datacenter = "dc2"
			vc.Datacenters = append(vc.Datacenters, vsphere.Datacenter{Name: "dc2"})
		}, []string{
			`degrade DefaultDatastore 1: vCenter vc1: datastores not found, or hidden from the user: "ds" of failure domain default` + noStore,
			"warn FailureDomain 1: vCenter vc1: objects not found, or hidden from the user: datacenter dc2 of failure domain default. Correct the failure " +
				"domain, or the user's permissions",
		}},
		"DefaultDatastore: of the only vCenter and datacenter": {func(in *input, _ *vsphere.VCenter) {
			in.config.Workspace = cloudconfig.Workspace{Datastore: "ds"}
		}, nil},
		"DefaultDatastore: in a cluster of datastores": {func(in *input, vc *vsphere.VCenter) {
			in.config.Workspace.Datastore, vc.Datastores[0].Path = "pod/ds", "/dc1/datastore/pod/ds"
		}, nil},
		"DefaultDatastore: none configured": {func(in *input, _ *vsphere.VCenter) { in.config.Workspace = cloudconfig.Workspace{} }, nil},
	})
}

func TestFailureDomainsThatNameWhatIsNotThereAreFound(t *testing.T) {
	run(t, healthy, map[string]row{
		"FailureDomain": {func(_ *input, vc *vsphere.VCenter) {
			vc.Datacenters[0].Ref, vc.Clusters, vc.Folders[0].Ref, vc.Pools[0].Ref = vsphere.Ref{}, nil, vsphere.Ref{}, vsphere.Ref{}
		}, []string{
			"warn FailureDomain 4: vCenter vc1: objects not found, or hidden from the user: compute cluster /dc1/host/c1 of failure domain fd-dc1, " +
				"datacenter dc1 of failure domain fd-dc1, folder " +
				"/dc1/vm/ocp of failure domain fd-dc1, resource pool /dc1/host/c1/Resources of failure domain fd-dc1. Correct the " +
				"failure domain, or the user's permissions",
		}},
		"FailureDomain: a folder by the end of its path": {func(in *input, _ *vsphere.VCenter) { in.want.FailureDomains[0].Topology.Folder = "ocp" }, nil},
		"FailureDomain: the rest is optional": {func(in *input, _ *vsphere.VCenter) {
			in.want.FailureDomains[0].Topology.Folder, in.want.FailureDomains[0].Topology.ResourcePool = "", ""
		}, nil},
	})
}

func TestClassesAndVolumesThatNameWhatIsNotThereAreFound(t *testing.T) {
	const classes, end = "warn StorageClassPlacement 1: StorageClasses name a datastore or storage policy that does not exist or is not unique: ", ". Provisioning fails for these classes. Correct vSphere, or replace the classes"
	with := func(one class) func(*input, *vsphere.VCenter) {
		return func(in *input, _ *vsphere.VCenter) { in.cluster.classes = append(in.cluster.classes, one) }
	}
	run(t, healthy, map[string]row{
		"StorageClassPlacement: no such URL":       {with(class{name: "a", url: "ds:///x/"}), []string{classes + "a (datastoreurl ds:///x/)" + end}},
		"StorageClassPlacement: no such datastore": {with(class{name: "a", datastore: "x"}), []string{classes + "a (datastore x)" + end}},
		"StorageClassPlacement: no such policy": {func(in *input, vc *vsphere.VCenter) { vc.Policies, in.snapshot.VCenters[1].Policies = nil, nil }, []string{
			classes + `gold (0 storage policies "gold" in vc1, vc2)` + end,
		}},
		"StorageClassPlacement: only another vCenter has the policy": {func(_ *input, vc *vsphere.VCenter) { vc.Policies = nil }, nil},
		"StorageClassPlacement: two such policies": {func(_ *input, vc *vsphere.VCenter) { vc.Policies = append(vc.Policies, vc.Policies[0]) }, []string{
			classes + `gold (2 storage policies "gold" in vc1)` + end,
		}},
		"StorageClassPlacement: a policy by its ID": {with(class{name: "a", policy: "p-1"}), nil},
		"StorageClassPlacement: the user may not see policies": {func(_ *input, vc *vsphere.VCenter) {
			vc.Policies, vc.Privileges[0].Missing = nil, []string{"StorageProfile.View"}
		}, []string{
			"warn AccountPermissions 1: vCenter vc1: user ocp@vsphere.local lacks privileges on vcenter / (StorageProfile.View). Add them to the role of the user",
		}},
		"StorageClassPlacement: it may be in a vCenter that does not answer": {func(in *input, vc *vsphere.VCenter) {
			in.cluster.classes = append(in.cluster.classes, class{name: "a", datastore: "x"})
			in.cluster.volumes = append(in.cluster.volumes, volume{name: "pv", datastore: "x"})
			vc.Err, vc.FailingSince = failing("vc1", vsphere.Timeout), noon()
		}, nil},
	})
	run(t, single, map[string]row{
		"VolumePlacement": {func(in *input, _ *vsphere.VCenter) {
			in.cluster.volumes = []volume{
				{name: "pv-1", inTree: true, datastore: "ds"}, {name: "pv-2", inTree: true, datastore: "gone"}, {name: "pv-3", inTree: true, datastore: "pod/ds"},
				{name: "pv-4"},
			}
		}, []string{
			"warn VolumePlacement 1: PersistentVolumes are on datastores that no vCenter has: pv-2 (gone). Pods can't mount them. Rename the datastores " +
				"back, or " +
				"restore the volumes",
		}},
	})
}

func TestTheDatastoreOfMigrationIsThatOfTheOnlyVCenter(t *testing.T) {
	for name, test := range map[string]struct {
		in     func() input
		change func(in *input)
		want   string
	}{
		"of the configuration": {single, func(*input) {}, "ds:///dc1/"},
		"of the failure domain": {single, func(in *input) {
			in.want.FailureDomains = []configv1.VSpherePlatformFailureDomainSpec{domainOf("vc1", "dc1")}
		}, "ds:///dc1/"},
		"it is not there":                {single, func(in *input) { in.snapshot.VCenters[0].Datastores = nil }, ""},
		"nobody has configured any":      {single, func(in *input) { in.config = cloudconfig.Config{} }, ""},
		"the vCenter has never answered": {single, func(in *input) { in.snapshot.VCenters[0] = vsphere.VCenter{Server: "vc1"} }, ""},
		"several vCenters":               {healthy, func(*input) {}, ""},
	} {
		in := test.in()
		test.change(&in)
		if got := in.defaultURL(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
