package fakevsphere

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// read reads properties of the object at a path.
func read[T any](t *testing.T, c *clients, v *VCenter, path string, properties ...string) T {
	t.Helper()
	var into T
	if err := property.DefaultCollector(c.soap).RetrieveOne(t.Context(), v.Ref(path), properties, &into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return into
}

// A node names its VM by providerID. What checks read of a VM must be where a vCenter has it.
func TestAVMIsFoundByProviderIDAndIsAsItWasSet(t *testing.T) {
	v := start(t, Options{})
	c := signIn(t, v)
	const path = "/dc1/vm/infra-x1/node2"
	uuid := strings.TrimPrefix(v.ProviderID(path), "vsphere://")
	find := func() types.ManagedObjectReference {
		found, err := object.NewSearchIndex(c.soap).FindByUuid(t.Context(), nil, uuid, true, types.NewBool(false))
		if err != nil || found == nil {
			t.Fatalf("%s: %v, %v", uuid, found, err)
		}
		return found.Reference()
	}
	if diff := cmp.Diff(v.Ref(path), find()); diff != "" {
		t.Error(diff)
	}
	before := read[mo.VirtualMachine](t, c, v, path, "name", "config", "runtime.host", "resourcePool", "parent")
	if before.Name != "node2" || before.Config.Version != "vmx-19" || !*before.Config.Flags.DiskUuidEnabled || *before.Config.ChangeTrackingEnabled {
		t.Errorf("%+v", before)
	}
	if *before.Runtime.Host != v.Ref("/dc1/host/cluster1/esx2") || *before.ResourcePool != v.Ref("/dc1/host/cluster1/Resources") ||
		*before.Parent != v.Ref("/dc1/vm/infra-x1") {
		t.Errorf("%v in %v and %v", before.Runtime.Host, before.ResourcePool, before.Parent)
	}
	v.SetVM(path, VM{Hardware: 13, DiskUUIDOff: true, CBT: true, Disks: 2, Pool: "pool1", ExtraConfig: map[string]string{"a": "b"}})
	after := read[mo.VirtualMachine](t, c, v, path, "config.version", "config.flags", "config.changeTrackingEnabled", "config.extraConfig",
		"config.hardware.device", "summary.config.numVirtualDisks", "runtime.host", "resourcePool")
	settings := map[string]string{}
	for _, one := range after.Config.ExtraConfig {
		settings[one.GetOptionValue().Key], _ = one.GetOptionValue().Value.(string)
	}
	want := map[string]string{"disk.enableUUID": "FALSE", "ctkEnabled": "TRUE", "a": "b"}
	if diff := cmp.Diff(want, settings); diff != "" {
		t.Error(diff)
	}
	disks := object.VirtualDeviceList(after.Config.Hardware.Device).SelectByType((*types.VirtualDisk)(nil))
	if after.Config.Version != "vmx-13" || *after.Config.Flags.DiskUuidEnabled || !*after.Config.ChangeTrackingEnabled || len(disks) != 2 ||
		after.Summary.Config.NumVirtualDisks != 2 {
		t.Errorf("%+v, %d disks", after.Config, len(disks))
	}
	if *after.Runtime.Host != *before.Runtime.Host || *after.ResourcePool != v.Ref("/dc1/host/cluster1/Resources/pool1") || find() != v.Ref(path) {
		t.Errorf("%v in %v", after.Runtime.Host, after.ResourcePool)
	}
	if pool := read[mo.ResourcePool](t, c, v, "/dc1/host/cluster1/Resources", "vm"); len(pool.Vm) != 2 {
		t.Errorf("the pool that it was in has %v", pool.Vm)
	}
	v.Tag("c", "t", path, "/dc1")
	v.RemoveVM(path)
	if diff := cmp.Diff(map[string][]string{"c/t": {"/dc1"}}, v.Attachments()); diff != "" {
		t.Error(diff)
	}
	if folder := read[mo.Folder](t, c, v, "/dc1/vm/infra-x1", "childEntity"); len(folder.ChildEntity) != 2 || v.Ref(path) != (ref{}) {
		t.Errorf("the folder has %v", folder.ChildEntity)
	}
	added := v.AddVM("/dc1/host/cluster1", VM{Name: "node9", UUID: "42000000-0000-0000-0000-000000000009", Folder: "infra-x1", Host: "esx3"})
	if v.ProviderIDs()["node9"] != "vsphere://42000000-0000-0000-0000-000000000009" || read[mo.VirtualMachine](t, c, v, added, "name").Name != "node9" {
		t.Errorf("%v", v.ProviderIDs())
	}
}

func TestHostsDatastoresAndGroupsAreAsTheyWereSet(t *testing.T) {
	v := start(t, Options{Version: "7.0.3", Build: "1", APIVersion: "7.0.3.0"})
	c := signIn(t, v)
	if about := c.soap.ServiceContent.About; about.Version != "7.0.3" || about.Build != "1" || about.ApiVersion != "7.0.3.0" {
		t.Errorf("%+v", about)
	}
	const cluster = "/dc1/host/cluster1"
	v.SetHost(cluster+"/esx1", Host{Version: "6.7.0", Build: "14320388", APIVersion: "6.7.3", Disconnected: true})
	host := read[mo.HostSystem](t, c, v, cluster+"/esx1", "name", "config.product", "summary.config.product", "runtime.connectionState",
		"datastore", "parent")
	if host.Name != "esx1" || host.Config.Product.Version != "6.7.0" || host.Summary.Config.Product.ApiVersion != "6.7.3" || len(host.Datastore) != 2 ||
		host.Runtime.ConnectionState != types.HostSystemConnectionStateNotResponding || *host.Parent != v.Ref(cluster) {
		t.Errorf("%+v", host)
	}
	if other := read[mo.HostSystem](t, c, v, cluster+"/esx2", "config.product", "runtime.connectionState"); other.Config.Product.Version != "8.0.2" ||
		other.Runtime.ConnectionState != types.HostSystemConnectionStateConnected {
		t.Errorf("another host: %+v", other)
	}
	v.SetDatastore("/dc1/datastore/ds1", Datastore{
		URL: "ds:///vmfs/volumes/a/", Type: "vsan", Maintenance: "inMaintenance", Capacity: 10, Free: 1, Inaccessible: true,
	})
	summary := read[mo.Datastore](t, c, v, "/dc1/datastore/ds1", "summary", "info").Summary
	if summary.Name != "ds1" || summary.Url != "ds:///vmfs/volumes/a/" || summary.Type != "vsan" || summary.MaintenanceMode != "inMaintenance" ||
		summary.Capacity != 10 || summary.FreeSpace != 1 || summary.Accessible {
		t.Errorf("%+v", summary)
	}
	v.AddDatastore("/dc1", Datastore{Name: "other", Clusters: []string{"other"}})
	if one := read[mo.Datastore](t, c, v, "/dc1/datastore/other", "host"); len(one.Host) != 0 {
		t.Errorf("a datastore of another cluster is mounted by %v", one.Host)
	}
	v.SetGroups(cluster, Groups{
		Hosts: map[string][]string{"zone-a": {"esx1", "esx2"}}, VMs: map[string][]string{"vms-a": {"node1"}}, Rules: []Rule{{"rule-a", "vms-a", "zone-a"}},
	})
	config, _ := read[mo.ClusterComputeResource](t, c, v, cluster, "configurationEx").ConfigurationEx.(*types.ClusterConfigInfoEx)
	hosts, _ := config.Group[0].(*types.ClusterHostGroup)
	rule, _ := config.Rule[0].(*types.ClusterVmHostRuleInfo)
	if hosts.Name != "zone-a" || len(hosts.Host) != 2 || hosts.Host[0] != v.Ref(cluster+"/esx1") || rule.AffineHostGroupName != "zone-a" {
		t.Errorf("%+v, %+v", hosts, rule)
	}
}

func TestARenamedObjectIsTheSameAtAnotherPath(t *testing.T) {
	v := start(t, Options{})
	c := signIn(t, v)
	for _, path := range []string{
		"/dc1/host/cluster1/esx1", "/dc1/host/cluster1/Resources/pool1", "/dc1/host/cluster1", "/dc1/datastore/ds1", "/dc1/vm/infra-x1/node1",
		"/dc1/vm/infra-x1", "/dc1",
	} {
		object, kept := v.Ref(path), v.ProviderID("/dc1/vm/infra-x1/node2")
		v.Rename(path, "new")
		moved := v.Path(object)
		if !strings.HasSuffix(moved, "/new") || v.Ref(moved) != object || v.Ref(path) != (ref{}) {
			t.Errorf("%s is at %q", path, moved)
		}
		if entity := read[mo.ManagedEntity](t, c, v, moved, "name"); entity.Name != "new" {
			t.Errorf("%s is %q", path, entity.Name)
		}
		if path == "/dc1/vm/infra-x1" && v.ProviderID("/dc1/vm/new/node2") != kept {
			t.Error("a VM has another UUID since its folder was renamed")
		}
	}
	v.SetVM("/new/vm/new/node2", VM{Host: "new"})
	if vm := read[mo.VirtualMachine](t, c, v, "/new/vm/new/node2", "runtime.host"); *vm.Runtime.Host != v.Ref("/new/host/new/new") {
		t.Errorf("after all was renamed a VM moves to %v", vm.Runtime.Host)
	}
}

// What a client of many VMs must do: follow the token of each page. Clients that take the first page for all would pass without this.
func TestPropertiesComeInPagesAndWithoutWhatAUserMayNotRead(t *testing.T) {
	v := start(t, Options{})
	c := signIn(t, v)
	names := func() (list []string, unreadable int) {
		all, err := view.NewManager(c.soap).CreateContainerView(t.Context(), c.soap.ServiceContent.RootFolder, []string{"VirtualMachine"}, true)
		if err != nil {
			t.Fatal(err)
		}
		var vms []types.ObjectContent
		if err := all.Retrieve(t.Context(), nil, []string{"name", "config.uuid", "snapshot"}, &vms); err != nil {
			t.Fatal(err)
		}
		for _, vm := range vms {
			unreadable += len(vm.MissingSet)
			for _, one := range vm.PropSet {
				if one.Val == nil {
					t.Errorf("%s has no value", one.Name)
				}
				if one.Name == "name" {
					list = append(list, one.Val.(string))
				}
			}
		}
		return sorted(list), unreadable
	}
	want := []string{"node1", "node2", "node3"}
	for _, size := range []int32{0, 1, 2, 3} {
		v.SetPageSize(size)
		v.Reset()
		if got, _ := names(); cmp.Diff(want, got) != "" {
			t.Errorf("pages of %d: %v", size, got)
		}
		if pages := v.Count("ContinueRetrievePropertiesEx"); size == 1 && pages != 2 || size == 2 && pages != 1 {
			t.Errorf("pages of %d: %d continued", size, pages)
		}
		if writes := v.Writes(); len(writes) > 0 {
			t.Errorf("a read is counted as a write: %v", writes)
		}
	}
	v.Deny(v.User, "/dc1/vm/infra-x1/node1", "System.View")
	v.Deny(v.User, "/dc1/vm/infra-x1/node2", "System.Read")
	if got, unreadable := names(); cmp.Diff([]string{"node3"}, got) != "" || unreadable != 2 {
		t.Errorf("%v, %d unreadable", got, unreadable)
	}
}

func TestALargeInventoryIsSpreadOverItsClusters(t *testing.T) {
	v := start(t, Options{Datacenters: Large(45, 300)})
	c := signIn(t, v)
	if clusters, hosts, vms := len(v.Paths("ClusterComputeResource")), len(v.Paths("HostSystem")), len(v.ProviderIDs()); clusters != 3 || hosts != 45 || vms != 300 {
		t.Errorf("%d clusters, %d hosts, %d VMs", clusters, hosts, vms)
	}
	for _, path := range v.Paths("HostSystem") {
		if host := read[mo.HostSystem](t, c, v, path, "vm", "datastore"); len(host.Vm) < 5 || len(host.Vm) > 20 || len(host.Datastore) != 2 {
			t.Errorf("%s has %d VMs and %v", path, len(host.Vm), host.Datastore)
		}
	}
}

func TestDatacentersAndClustersMayBeInFolders(t *testing.T) {
	v := start(t, Options{Datacenters: []Datacenter{{
		Name: "dc1", Folder: "infra", Datastores: []Datastore{{Name: "ds1", Clusters: []string{"c1"}}}, Clusters: []Cluster{
			{Name: "c1", Folder: "zone-a", Hosts: []Host{{Name: "h1"}}, VMs: []VM{{Name: "node1"}}}, {Name: "c2", Folder: "zone-a", Hosts: []Host{{Name: "h2"}}},
		},
	}}})
	c := signIn(t, v)
	if diff := cmp.Diff([]string{"/infra/dc1/host/zone-a/c1", "/infra/dc1/host/zone-a/c2"}, v.Paths("ClusterComputeResource")); diff != "" {
		t.Error(diff)
	}
	ancestors, err := mo.Ancestors(t.Context(), c.soap, c.soap.ServiceContent.PropertyCollector, v.Ref("/infra/dc1/host/zone-a/c1"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, one := range ancestors {
		names = append(names, one.Name)
	}
	if diff := cmp.Diff([]string{"Datacenters", "infra", "dc1", "host", "zone-a", "c1"}, names); diff != "" {
		t.Error(diff)
	}
	if one := read[mo.Datastore](t, c, v, "/infra/dc1/datastore/ds1", "host"); len(one.Host) != 1 || one.Host[0].Key != v.Ref("/infra/dc1/host/zone-a/c1/h1") {
		t.Errorf("%+v", one.Host)
	}
	if vm := read[mo.VirtualMachine](t, c, v, "/infra/dc1/vm/node1", "runtime.host"); *vm.Runtime.Host != v.Ref("/infra/dc1/host/zone-a/c1/h1") {
		t.Errorf("%v", vm.Runtime.Host)
	}
	if got := v.datacenters(); cmp.Diff([]string{"/infra/dc1"}, got) != "" {
		t.Error(got)
	}
}
