package vsphere

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// at returns an object below another one, with its ID as its name.
func at(kind, name string, in object, more map[string]any) object {
	one := object{ref: Ref{Type: kind, Value: name}, props: map[string]any{propName: name}}
	if in.ref != (Ref{}) {
		one.props[propParent] = in.ref
	}
	for path, value := range more {
		one.props[path] = value
	}
	return one
}

func listed(refs ...Ref) types.ArrayOfManagedObjectReference {
	return types.ArrayOfManagedObjectReference{ManagedObjectReference: refs}
}

func ref(kind, name string) Ref { return Ref{Type: kind, Value: name} }

// town is an inventory: in dc a cluster c1 of two hosts, a cluster c2 of one, a host of its own, three datastores and a folder of VMs.
func town() []object {
	dc := at(kindDatacenter, "dc", object{}, nil)
	hosts, stores, vms := at(kindFolder, "host", dc, nil), at(kindFolder, "datastore", dc, nil), at(kindFolder, "vm", dc, nil)
	c1, c2, alone := at(kindCluster, "c1", hosts, nil), at(kindCluster, "c2", hosts, nil), at(kindCompute, "alone", hosts, nil)
	host := func(name string, in object, stores ...Ref) object {
		return at(kindHost, name, in, map[string]any{
			"datastore": listed(stores...), "config.product": types.AboutInfo{Version: "8.0.2", Build: "7", ApiVersion: "8.0.2.0"},
			"runtime.connectionState": types.HostSystemConnectionStateConnected,
		})
	}
	away := at(kindHost, "esx2", c1, map[string]any{
		"summary.config.product":  types.AboutInfo{Version: "7.0.3", Build: "6", ApiVersion: "7.0.3.0"},
		"runtime.connectionState": types.HostSystemConnectionStateDisconnected,
	})
	store := func(name string) object {
		return at(kindDatastore, name, stores, map[string]any{"summary": types.DatastoreSummary{
			Url: "ds:///" + name + "/", Type: "VMFS", Accessible: true, MaintenanceMode: "normal", Capacity: 10, FreeSpace: 5,
		}})
	}
	root := at(kindPool, "Resources", c1, nil)
	return []object{
		dc, hosts, stores, vms, c1, c2, alone, host("esx1", c1, ref(kindDatastore, "ds2"), ref(kindDatastore, "ds1")), away,
		host("esx3", c2, ref(kindDatastore, "ds1")), host("esx4", alone, ref(kindDatastore, "ds3")), store("ds1"), store("ds2"), store("ds3"),
		at(kindFolder, "infra", vms, nil), root, at(kindPool, "pool", root, nil), at(kindApp, "app", root, nil),
	}
}

// machine returns a VM as readEach does.
func machine(name, host, pool string, more map[string]any) object {
	kind := kindPool
	if pool == "app" {
		kind = kindApp
	}
	one := at(kindMachine, name, object{}, map[string]any{
		propUUID: "UUID-" + name, "runtime.host": ref(kindHost, host), "resourcePool": ref(kind, pool), "config.version": "vmx-15",
	})
	for path, value := range more {
		one.props[path] = value
	}
	return one
}

func surveyed(domains ...configv1.VSpherePlatformFailureDomainSpec) *survey {
	return &survey{inventory: newInventory(town()), config: cloudconfig.VCenterConfig{Server: "vc", Datacenters: []string{"dc"}}, domains: domains}
}

func domain(topology configv1.VSpherePlatformTopology) configv1.VSpherePlatformFailureDomainSpec {
	topology.Datacenter = "dc"
	return configv1.VSpherePlatformFailureDomainSpec{Name: "a", Server: "vc", Topology: topology}
}

func TestOfAVMItIsReadWhatANodeNeeds(t *testing.T) {
	cbt := func(value any) map[string]any {
		return map[string]any{propCBT: types.OptionValue{Key: "ctkEnabled", Value: value}}
	}
	for name, tc := range map[string]struct {
		vm   object
		want VM
	}{
		"a plain one":         {machine("a", "esx1", "pool", nil), VM{Hardware: 15, Host: ref(kindHost, "esx1"), Pool: ref(kindPool, "pool")}},
		"in a vApp":           {machine("a", "esx1", "app", nil), VM{Hardware: 15, Host: ref(kindHost, "esx1"), Pool: ref(kindPool, "Resources")}},
		"with tracking":       {machine("a", "esx1", "pool", cbt("TRUE")), VM{Hardware: 15, CBT: true, Host: ref(kindHost, "esx1"), Pool: ref(kindPool, "pool")}},
		"without tracking":    {machine("a", "esx1", "pool", cbt("false")), VM{Hardware: 15, Host: ref(kindHost, "esx1"), Pool: ref(kindPool, "pool")}},
		"tracking is no text": {machine("a", "esx1", "pool", cbt(true)), VM{Hardware: 15, Host: ref(kindHost, "esx1"), Pool: ref(kindPool, "pool")}},
		"with names of disks": {
			machine("a", "esx1", "pool", map[string]any{"config.flags.diskUuidEnabled": true, "summary.config.numVirtualDisks": int32(3)}),
			VM{Hardware: 15, DiskUUID: true, Disks: 3, Host: ref(kindHost, "esx1"), Pool: ref(kindPool, "pool")},
		},
		"hardware that nobody knows": {
			machine("a", "esx1", "pool", map[string]any{"config.version": "new"}), VM{Host: ref(kindHost, "esx1"), Pool: ref(kindPool, "pool")},
		},
		"properties that the user may not read": {
			object{ref: ref(kindMachine, "a"), props: map[string]any{propName: "a", propUUID: "UUID-a"}}, VM{},
		},
	} {
		s := surveyed()
		s.machines = []object{tc.vm}
		tc.want.Ref, tc.want.Name, tc.want.UUID = ref(kindMachine, "a"), "a", "uuid-a"
		if diff := cmp.Diff([]VM{tc.want}, s.vms()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestNodesAreTheVMsOfTheUUIDsThatThereAre(t *testing.T) {
	all := append(town(), machine("a", "esx1", "pool", nil), machine("b", "esx1", "pool", nil))
	s := &survey{inventory: newInventory(all), want: Want{UUIDs: []string{"uuid-b", "uuid-x", "uuid-a", "uuid-b"}}}
	if diff := cmp.Diff([]Ref{ref(kindMachine, "b"), ref(kindMachine, "a")}, s.nodes()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestVMsHaveOneOrderWhateverTheVCenterSays(t *testing.T) {
	s := surveyed()
	twin := machine("a", "esx1", "pool", nil)
	twin.ref.Value = "0"
	s.machines = []object{machine("b", "esx1", "pool", nil), machine("a", "esx1", "pool", nil), twin}
	var got []string
	for _, one := range s.vms() {
		got = append(got, one.Name+" "+one.Ref.Value)
	}
	if diff := cmp.Diff([]string{"a 0", "a a", "b b"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestClustersAndHostsAreThoseOfNodesAndFailureDomains(t *testing.T) {
	for name, tc := range map[string]struct {
		machines        []object
		domains         []configv1.VSpherePlatformFailureDomainSpec
		clusters, hosts []string
	}{
		"nobody asks":                       {},
		"a node":                            {machines: []object{machine("a", "esx1", "pool", nil)}, clusters: []string{"/dc/host/c1"}, hosts: []string{"esx1", "esx2"}},
		"a node on a host of its own":       {machines: []object{machine("a", "esx4", "pool", nil)}, hosts: []string{"esx4"}},
		"a failure domain":                  {domains: []configv1.VSpherePlatformFailureDomainSpec{domain(configv1.VSpherePlatformTopology{ComputeCluster: "/dc/host/c2"})}, clusters: []string{"/dc/host/c2"}, hosts: []string{"esx3"}},
		"a failure domain by name":          {domains: []configv1.VSpherePlatformFailureDomainSpec{domain(configv1.VSpherePlatformTopology{ComputeCluster: "c2"})}, clusters: []string{"/dc/host/c2"}, hosts: []string{"esx3"}},
		"a failure domain that is not here": {domains: []configv1.VSpherePlatformFailureDomainSpec{domain(configv1.VSpherePlatformTopology{ComputeCluster: "/dc/host/c9"})}},
		"both": {
			machines: []object{machine("a", "esx1", "pool", nil)},
			domains:  []configv1.VSpherePlatformFailureDomainSpec{domain(configv1.VSpherePlatformTopology{ComputeCluster: "/dc/host/c2"})},
			clusters: []string{"/dc/host/c1", "/dc/host/c2"}, hosts: []string{"esx1", "esx2", "esx3"},
		},
	} {
		s := surveyed(tc.domains...)
		s.machines = tc.machines
		vms := s.vms()
		clusters := s.clusters(vms)
		var paths, names []string
		for _, one := range clusters {
			paths = append(paths, one.Path)
		}
		for _, one := range s.hosts(vms, clusters) {
			names = append(names, one.Name)
		}
		if diff := cmp.Diff(tc.clusters, paths) + cmp.Diff(tc.hosts, names); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestAClusterHasTheDatastoresOfItsHostsAndWhatItIsIn(t *testing.T) {
	s := surveyed()
	s.machines = []object{machine("a", "esx1", "pool", nil)}
	want := []ComputeCluster{{
		Ref: ref(kindCluster, "c1"), Path: "/dc/host/c1", Datacenter: "/dc", Ancestors: []Ref{ref(kindFolder, "host"), ref(kindDatacenter, "dc")},
		Datastores: []Ref{ref(kindDatastore, "ds1"), ref(kindDatastore, "ds2")},
	}}
	if diff := cmp.Diff(want, s.clusters(s.vms())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAHostThatIsNotConnectedHasTheVersionThatWasKnown(t *testing.T) {
	s := surveyed()
	s.machines = []object{machine("a", "esx1", "pool", nil)}
	vms := s.vms()
	want := []Host{
		{
			Ref: ref(kindHost, "esx1"), Name: "esx1", Cluster: ref(kindCluster, "c1"), Version: "8.0.2", Build: "7", APIVersion: "8.0.2.0", Connected: true,
			Datastores: []Ref{ref(kindDatastore, "ds1"), ref(kindDatastore, "ds2")},
		},
		{Ref: ref(kindHost, "esx2"), Name: "esx2", Cluster: ref(kindCluster, "c1"), Version: "7.0.3", Build: "6", APIVersion: "7.0.3.0"},
	}
	if diff := cmp.Diff(want, s.hosts(vms, s.clusters(vms))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDatastoresAreThoseThatSomebodyNames(t *testing.T) {
	for name, tc := range map[string]struct {
		want    Want
		domains []configv1.VSpherePlatformFailureDomainSpec
		found   []string
	}{
		"nobody names any":          {},
		"by name":                   {want: Want{Datastores: []string{"ds2"}}, found: []string{"ds2"}},
		"by URL":                    {want: Want{Datastores: []string{"ds:///ds3/"}}, found: []string{"ds3"}},
		"by path":                   {want: Want{Datastores: []string{"/dc/datastore/ds1"}}, found: []string{"ds1"}},
		"by nothing":                {want: Want{Datastores: []string{""}}},
		"one that is not here":      {want: Want{Datastores: []string{"ds9"}}},
		"by a failure domain":       {domains: []configv1.VSpherePlatformFailureDomainSpec{domain(configv1.VSpherePlatformTopology{Datastore: "ds1"})}, found: []string{"ds1"}},
		"by a domain, and a PV":     {want: Want{Datastores: []string{"ds1", "ds3"}}, domains: []configv1.VSpherePlatformFailureDomainSpec{domain(configv1.VSpherePlatformTopology{Datastore: "/dc/datastore/ds1"})}, found: []string{"ds1", "ds3"}},
		"one of another datacenter": {want: Want{Datastores: []string{"/dc2/datastore/ds1"}}},
	} {
		s := surveyed(tc.domains...)
		s.want = tc.want
		var names []string
		for _, one := range s.datastores() {
			names = append(names, one.Name)
			if one.URL != "ds:///"+one.Name+"/" || one.Path != "/dc/datastore/"+one.Name || one.Datacenter != "/dc" || one.Capacity != 10 || one.Free != 5 ||
				!one.Accessible || one.Type != "VMFS" || one.Maintenance != "normal" {
				t.Errorf("%s: %+v", name, one)
			}
		}
		if diff := cmp.Diff(tc.found, names); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// Missing objects are still listed, so that a check can report them.
func TestWhatAFailureDomainNamesIsThereWithoutARefIfItIsMissing(t *testing.T) {
	there := domain(configv1.VSpherePlatformTopology{Folder: "/dc/vm/infra", ResourcePool: "/dc/host/c1/Resources/pool"})
	missing := domain(configv1.VSpherePlatformTopology{Folder: "/dc/vm/other", ResourcePool: "/dc/host/c1/Resources/other"})
	missing.Topology.Datacenter = "dc9"
	s := surveyed(there, there, missing, domain(configv1.VSpherePlatformTopology{}))
	folders := []Folder{{Ref: ref(kindFolder, "infra"), Path: "/dc/vm/infra"}, {Path: "/dc/vm/other"}}
	pools := []ResourcePool{{Ref: ref(kindPool, "pool"), Path: "/dc/host/c1/Resources/pool"}, {Path: "/dc/host/c1/Resources/other"}}
	datacenters := []Datacenter{{Ref: ref(kindDatacenter, "dc"), Path: "/dc", Name: "dc"}, {Name: "dc9"}}
	sorted := []ResourcePool{pools[1], pools[0]}
	if diff := cmp.Diff(folders, s.folders()) + cmp.Diff(sorted, s.pools(nil)) + cmp.Diff(datacenters, s.datacenters()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// The pools of nodes are listed, too, without duplicates.
	s.machines = []object{machine("a", "esx1", "pool", nil), machine("b", "esx1", "app", nil)}
	all := append([]ResourcePool{{Ref: ref(kindPool, "Resources"), Path: "/dc/host/c1/Resources"}}, sorted...)
	if diff := cmp.Diff(all, s.pools(s.vms())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestGroupsAreReadOfClustersInWhichOneIsAZone(t *testing.T) {
	plain := domain(configv1.VSpherePlatformTopology{ComputeCluster: "/dc/host/c1"})
	grouped := domain(configv1.VSpherePlatformTopology{ComputeCluster: "/dc/host/c2"})
	grouped.ZoneAffinity = &configv1.VSphereFailureDomainZoneAffinity{Type: configv1.HostGroupFailureDomainZone}
	lost := grouped
	lost.Topology.ComputeCluster = "/dc/host/c9"
	if diff := cmp.Diff([]Ref{ref(kindCluster, "c2")}, surveyed(plain, grouped, grouped, lost).grouped()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	clusters := []ComputeCluster{{Ref: ref(kindCluster, "c1")}, {Ref: ref(kindCluster, "c2")}}
	vmGroup := func(name string) *types.ClusterVmGroup {
		return &types.ClusterVmGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: name}}
	}
	hostGroup := func(name string, hosts ...Ref) *types.ClusterHostGroup {
		return &types.ClusterHostGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: name}, Host: hosts}
	}
	rule := func(name string) *types.ClusterVmHostRuleInfo {
		return &types.ClusterVmHostRuleInfo{ClusterRuleInfo: types.ClusterRuleInfo{Name: name}}
	}
	foreign := Ref{Type: kindHost, Value: "esx3", ServerGUID: "guid"}
	configuration := types.ClusterConfigInfoEx{
		Group: []types.BaseClusterGroupInfo{vmGroup("vms-b"), vmGroup("vms-a"), hostGroup("hosts", ref(kindHost, "esx9"), foreign), hostGroup("none")},
		Rule:  []types.BaseClusterRuleInfo{rule("z"), rule("y"), &types.ClusterAffinityRuleSpec{ClusterRuleInfo: types.ClusterRuleInfo{Name: "of VMs"}}},
	}
	addGroups(clusters, []object{
		{ref: ref(kindCluster, "c2"), props: map[string]any{propGroups: configuration}},
		{ref: ref(kindCluster, "c9"), props: map[string]any{propGroups: configuration}},
	})
	want := []ComputeCluster{{Ref: ref(kindCluster, "c1")}, {
		Ref: ref(kindCluster, "c2"), HostGroups: map[string][]Ref{"hosts": {ref(kindHost, "esx3"), ref(kindHost, "esx9")}, "none": nil},
		VMGroups: []string{"vms-a", "vms-b"}, VMHostRules: []string{"y", "z"},
	}}
	if diff := cmp.Diff(want, clusters); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
