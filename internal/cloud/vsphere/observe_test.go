package vsphere_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// machines returns the UUIDs of all VMs, sorted by VM name.
func (c *center) machines() []string {
	var all []*simulator.VirtualMachine
	for _, one := range c.model.Map().All("VirtualMachine") {
		all = append(all, one.(*simulator.VirtualMachine))
	}
	slices.SortFunc(all, func(a, b *simulator.VirtualMachine) int { return strings.Compare(a.Name, b.Name) })
	var uuids []string
	for _, one := range all {
		uuids = append(uuids, one.Config.Uuid)
	}
	return uuids
}

// change changes an object of the simulator.
func change[T mo.Entity](t *testing.T, c *center, kind, name string, do func(T)) {
	t.Helper()
	for _, one := range c.model.Map().All(kind) {
		if entity, is := one.(T); is && entity.Entity().Name == name {
			c.model.Service.Context.WithLock(one, func() { do(entity) })
			return
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
}

func TestOnePollReadsTheNodesAndWhatTheyRunOn(t *testing.T) {
	c := startCenter(t, 1, severalHosts)
	s := newScene(t, c)
	s.want.UUIDs = append(c.machines()[:2], "00000000-0000-0000-0000-000000000000", c.machines()[0])
	change(t, c, "VirtualMachine", "DC0_C0_RP0_VM0", func(vm *simulator.VirtualMachine) {
		on := true
		vm.Config.Version, vm.Config.Flags.DiskUuidEnabled, vm.Summary.Config.NumVirtualDisks = "vmx-15", &on, 3
		vm.Config.ExtraConfig = append(vm.Config.ExtraConfig, &types.OptionValue{Key: "ctkEnabled", Value: "TRUE"})
	})
	change(t, c, "HostSystem", "DC0_C0_H1", func(host *simulator.HostSystem) {
		host.Config.Product = types.AboutInfo{Version: "6.7.0", Build: "1", ApiVersion: "6.7.2"}
		host.Runtime.ConnectionState = types.HostSystemConnectionStateDisconnected
	})
	if wait := s.tick(); wait != vsphere.Interval {
		t.Errorf("the next poll is in %s", wait)
	}
	seen := s.only()
	if seen.User != user || seen.Login != user || seen.Version == "" || seen.Build == "" || seen.APIVersion == "" || !seen.Answered.Equal(s.clock.now()) || !seen.CanReadTasks || seen.Insecure {
		t.Errorf("%+v", seen)
	}
	if len(seen.VMs) != 2 || seen.VMs[0].Name != "DC0_C0_RP0_VM0" || seen.VMs[0].UUID != s.want.UUIDs[0] {
		t.Fatalf("%+v", seen.VMs)
	}
	one, other := seen.VMs[0], seen.VMs[1]
	if one.Hardware != 15 || !one.DiskUUID || !one.CBT || one.Disks != 3 || other.Hardware != 13 || other.DiskUUID || other.CBT || other.Disks != 1 {
		t.Errorf("%+v", seen.VMs)
	}
	if len(seen.Hosts) != 3 || len(seen.Clusters) != 1 || len(seen.Datastores) != 1 || len(seen.Pools) != 1 || len(seen.Folders) != 1 || len(seen.Datacenters) != 1 {
		t.Fatalf("%+v", seen)
	}
	for i, host := range seen.Hosts {
		if old := i == 1; host.Name != fmt.Sprintf("DC0_C0_H%d", i) || host.Cluster != seen.Clusters[0].Ref || host.Connected == old || (host.APIVersion == "6.7.2") != old ||
			len(host.Datastores) != 1 {
			t.Errorf("%+v", host)
		}
	}
	if !slices.ContainsFunc(seen.Hosts, func(host vsphere.Host) bool { return host.Ref == one.Host }) || one.Pool != seen.Pools[0].Ref {
		t.Errorf("%+v is on none of %+v or in none of %+v", one, seen.Hosts, seen.Pools)
	}
	cluster, store := seen.Clusters[0], seen.Datastores[0]
	if cluster.Path != "/DC0/host/DC0_C0" || cluster.Datacenter != "/DC0" || len(cluster.Ancestors) != 2 || cluster.Ancestors[1] != seen.Datacenters[0].Ref ||
		!slices.Equal(cluster.Datastores, []vsphere.Ref{store.Ref}) {
		t.Errorf("%+v", cluster)
	}
	if store.Path != "/DC0/datastore/LocalDS_0" || store.Name != "LocalDS_0" || store.URL == "" || store.Type == "" || store.Datacenter != "/DC0" || !store.Accessible ||
		store.Maintenance != "normal" || store.Capacity <= store.Free || store.Free <= 0 {
		t.Errorf("%+v", store)
	}
	if len(seen.Policies) < 3 || !slices.IsSortedFunc(seen.Policies, func(a, b vsphere.Policy) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%+v", seen.Policies)
	}
}

func TestAVMThatIsDeletedDuringThePollIsLeftOut(t *testing.T) {
	c := startCenter(t, 1, severalHosts)
	s := newScene(t, c)
	s.want.UUIDs = c.machines()
	calls := 0
	c.setFault(func(_ http.ResponseWriter, _ *http.Request, asked string) bool {
		if asked == "RetrievePropertiesEx" {
			if calls++; calls == 2 {
				c.model.Map().Remove(c.model.Service.Context, c.model.Map().Any("VirtualMachine").Reference())
			}
		}
		return false
	})
	if s.tick(); len(s.only().VMs) != 3 {
		t.Errorf("%+v", s.only().VMs)
	}
}

func TestFailureDomainsNameWhatIsLookedFor(t *testing.T) {
	c := startCenter(t, 1, func(model *simulator.Model) { model.Datacenter, model.Cluster, model.Datastore = 2, 2, 2 })
	s := newScene(t, c)
	s.config.VCenters[0].Datacenters = []string{"DC0", "/DC1", "gone"}
	s.want.FailureDomains[0].Topology = configv1.VSpherePlatformTopology{
		Datacenter: "DC1", ComputeCluster: "/DC1/host/DC1_C1", Datastore: "LocalDS_1", Folder: "nowhere", ResourcePool: "DC1_C1/Resources",
	}
	s.want.FailureDomains = append(s.want.FailureDomains, configv1.VSpherePlatformFailureDomainSpec{Server: "another", Topology: configv1.VSpherePlatformTopology{
		Datacenter: "elsewhere", ComputeCluster: "/DC0/host/DC0_C0",
	}})
	s.tick()
	seen := s.only()
	var found []string
	for _, one := range seen.Datacenters {
		found = append(found, fmt.Sprintf("%s=%s %t", one.Name, one.Path, one.Ref != vsphere.Ref{}))
	}
	for _, one := range seen.Clusters {
		found = append(found, one.Path)
	}
	for _, one := range seen.Datastores {
		found = append(found, one.Path)
	}
	for _, one := range seen.Folders {
		found = append(found, fmt.Sprintf("%s %t", one.Path, one.Ref != vsphere.Ref{}))
	}
	for _, one := range seen.Pools {
		found = append(found, one.Path)
	}
	want := []string{
		"DC0=/DC0 true", "/DC1=/DC1 true", "gone= false", "DC1=/DC1 true", "/DC1/host/DC1_C1", "/DC1/datastore/LocalDS_1", "nowhere false",
		"/DC1/host/DC1_C1/Resources",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	// StorageClasses and PVs refer to datastores by name, path or URL. A name can match several.
	s.want.FailureDomains = nil
	s.want.Datastores = []string{"LocalDS_0", seen.Datastores[0].URL, "/DC9/datastore/x", ""}
	s.clock.pass(vsphere.Interval)
	s.tick()
	found = nil
	for _, one := range s.only().Datastores {
		found = append(found, one.Path)
	}
	want = []string{"/DC0/datastore/LocalDS_0", "/DC1/datastore/LocalDS_0", "/DC1/datastore/LocalDS_1"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
}

func TestTheWorkspaceOfTheLegacyFormIsAFailureDomain(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	s.want.FailureDomains = nil
	s.config.Workspace = cloudconfig.Workspace{Datastore: "LocalDS_0", Folder: "/DC0/vm", ResourcePool: "/DC0/host/DC0_C0/Resources"}
	var got vsphere.Want
	s.After = func(_ context.Context, _ vsphere.Snapshot, want vsphere.Want, _ map[string]vsphere.Writer) bool {
		got = want
		return false
	}
	s.tick()
	seen := s.only()
	if len(seen.Datastores) != 1 || len(seen.Folders) != 1 || len(seen.Pools) != 1 || len(seen.Clusters) != 0 {
		t.Errorf("%+v", seen)
	}
	if len(got.FailureDomains) != 1 || got.FailureDomains[0].Server != c.host || got.FailureDomains[0].Topology.Datacenter != "DC0" ||
		got.FailureDomains[0].Topology.Datastore != "LocalDS_0" {
		t.Errorf("After got %+v", got.FailureDomains)
	}
}

func TestGroupsOfHostsAreReadWhereAFailureDomainIsOne(t *testing.T) {
	c := startCenter(t, 1, severalHosts)
	var hosts []types.ManagedObjectReference
	change(t, c, "ClusterComputeResource", "DC0_C0", func(cluster *simulator.ClusterComputeResource) {
		hosts = cluster.Host[:2]
		configuration := cluster.ConfigurationEx.(*types.ClusterConfigInfoEx)
		configuration.Group = []types.BaseClusterGroupInfo{
			&types.ClusterHostGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: "zone-a"}, Host: hosts},
			&types.ClusterHostGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: "empty"}},
			&types.ClusterVmGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: "vms"}},
		}
		configuration.Rule = []types.BaseClusterRuleInfo{&types.ClusterVmHostRuleInfo{ClusterRuleInfo: types.ClusterRuleInfo{Name: "rule"}}}
	})
	s := newScene(t, c)
	s.tick()
	if cluster := s.only().Clusters[0]; cluster.HostGroups != nil {
		t.Errorf("nobody asked for %+v", cluster)
	}
	s.want.FailureDomains[0].ZoneAffinity = &configv1.VSphereFailureDomainZoneAffinity{Type: configv1.HostGroupFailureDomainZone}
	s.clock.pass(vsphere.Interval)
	s.tick()
	cluster := s.only().Clusters[0]
	group, empty := cluster.HostGroups["zone-a"], cluster.HostGroups["empty"]
	if len(cluster.HostGroups) != 2 || len(group) != 2 || !slices.Contains(group, hosts[0]) || len(empty) != 0 ||
		!slices.Equal(cluster.VMGroups, []string{"vms"}) || !slices.Equal(cluster.VMHostRules, []string{"rule"}) {
		t.Errorf("%+v", cluster)
	}
}

// fill adds copies of one host and one VM, because creating each would take a minute.
func (c *center) fill(hosts, machines int) {
	context := c.model.Service.Context
	cluster := context.Map.Any("ClusterComputeResource").(*simulator.ClusterComputeResource)
	host := context.Map.Get(cluster.Host[0]).(*simulator.HostSystem)
	vm := context.Map.Get(host.Vm[0]).(*simulator.VirtualMachine)
	for i := range hosts {
		made := *host
		made.Self.Value, made.Name, made.Vm = fmt.Sprintf("host-1%04d", i), fmt.Sprintf("copy-%d", i), nil
		context.Map.PutEntity(cluster, &made)
		cluster.Host = append(cluster.Host, made.Self)
	}
	folder := context.Map.Get(*vm.Parent).(*simulator.Folder)
	for i := range machines {
		made, configuration := *vm, *vm.Config
		made.Self.Value, made.Name, made.Config = fmt.Sprintf("vm-1%04d", i), fmt.Sprintf("copy-%d", i), &configuration
		configuration.Uuid = fmt.Sprintf("11111111-0000-0000-0000-%012d", i)
		context.Map.PutEntity(folder, &made)
		folder.ChildEntity = append(folder.ChildEntity, made.Self)
	}
}

// Reading a tenth of 200 hosts and 2,000 VMs in pages of a tenth takes as many requests as reading all. make bench measures all of them.
func TestALargeVCenterCostsFewRequests(t *testing.T) {
	c := startCenter(t, 1, func(model *simulator.Model) { model.Host, model.ClusterHost, model.Machine = 0, 1, 1 })
	c.small = true
	c.fill(19, 199)
	s := newScene(t, c)
	s.want.UUIDs = c.machines()
	if len(s.want.UUIDs) != 200 {
		t.Fatalf("%d VMs", len(s.want.UUIDs))
	}
	began := time.Now()
	s.tick()
	first := c.requests("")
	c.reset()
	s.clock.pass(vsphere.Interval)
	s.tick()
	t.Logf("first poll %d requests, then %d; both in %s", first, c.requests(""), time.Since(began))
	seen := s.only()
	if first > 15 || c.requests("") > 12 || len(seen.VMs) != 200 || len(seen.Hosts) != 20 {
		t.Errorf("%d requests, then %d: %v; %d VMs, %d hosts", first, c.requests(""), c.counts, len(seen.VMs), len(seen.Hosts))
	}
}

func TestPrivilegesThatAreMissingAreNamedByObject(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	s.tick()
	seen := s.only()
	var kinds []string
	for _, one := range seen.Privileges {
		kinds = append(kinds, string(one.Kind)+" "+one.Path)
		if len(one.Missing) > 0 {
			t.Errorf("%+v", one)
		}
	}
	want := []string{
		"vcenter /", "datacenter /DC0", "cluster /DC0/host/DC0_C0", "folder /DC0/vm", "datastore /DC0/datastore/LocalDS_0",
		"resource pool /DC0/host/DC0_C0/Resources",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	// The user has a role only on the datastore, with the privilege to browse.
	store := seen.Datastores[0].Ref
	c.setFault(func(w http.ResponseWriter, _ *http.Request, asked string) bool {
		if asked != "FetchUserPrivilegeOnEntities" {
			return false
		}
		soapAnswer(w, "vim25", "FetchUserPrivilegeOnEntities", fmt.Sprintf(`<returnval><entity type="Datastore">%s</entity>`+
			`<privileges>Datastore.Browse</privileges><privileges>System.Read</privileges></returnval>`, store.Value))
		return true
	})
	s.clock.pass(vsphere.Interval)
	s.tick()
	for _, one := range s.only().Privileges {
		switch {
		case one.Kind == vsphere.OnDatastore && !slices.Equal(one.Missing, []string{
			"Datastore.AllocateSpace", "Datastore.FileManagement", "InventoryService.Tagging.ObjectAttachable",
		}):
			t.Errorf("%+v", one)
		case one.Kind == vsphere.OnDatacenter && !slices.Equal(one.Missing, []string{"System.Read"}), one.Kind == vsphere.OnFolder && len(one.Missing) != 28:
			t.Errorf("%+v", one)
		}
	}
}

func TestAUserThatMayNotListTasksIsNoFailure(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	calls := 0
	c.setFault(func(w http.ResponseWriter, _ *http.Request, asked string) bool {
		if asked == "RetrievePropertiesEx" {
			// One request for the inventory, one for tasks, and none for nodes.
			if calls++; calls == 2 {
				soapFault(w, "NoPermission")
				return true
			}
		}
		return false
	})
	if s.tick(); s.only().CanReadTasks {
		t.Error("it can")
	}
}

func soapAnswer(w http.ResponseWriter, namespace, method, body string) {
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" `+
		`xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>`+
		`<%sResponse xmlns="urn:%s">%s</%sResponse></soapenv:Body></soapenv:Envelope>`, method, namespace, body, method)
}
