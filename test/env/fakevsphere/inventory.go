package fakevsphere

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/vim25/types"
)

// Datacenter is one with all that is in it.
type Datacenter struct {
	Name string
	// Folder is one that it is in, if any.
	Folder     string
	Clusters   []Cluster
	Datastores []Datastore
	// Folders are those of VMs, such as "infra-x1".
	Folders []string
}

// Cluster is a compute cluster.
type Cluster struct {
	Name string
	// Folder is one that it is in, if any.
	Folder string
	Hosts  []Host
	// Pools are resource pools in the cluster's root pool, "Resources".
	Pools []string
	VMs   []VM
}

// Host is an ESXi host.
type Host struct {
	Name string
	// Version, Build and APIVersion have defaults of an ESXi 8.
	Version, Build, APIVersion string
	Disconnected               bool
}

// VM is a virtual machine with its disks.
type VM struct {
	Name string
	// UUID has a default that is made of the name and the place.
	UUID string
	// Folder, Host and Pool are names. Without a host it is on the first, without a pool in the cluster's "Resources".
	Folder, Host, Pool string
	// Hardware is the version of the virtual hardware; 19 if it is 0.
	Hardware int
	// DiskUUIDOff means that disk.enableUUID is off, which no node may have. CBT is ctkEnabled.
	DiskUUIDOff, CBT bool
	Disks            int
	// ExtraConfig are further advanced settings.
	ExtraConfig map[string]string
}

// Datastore is one that all hosts of the clusters mount that it names.
type Datastore struct {
	Name string
	// URL has a default that is made of the name and the place.
	URL string
	// Type is VMFS if it is empty.
	Type string
	// Maintenance is "normal" if it is empty, Capacity 1 TiB, and Free half of that.
	Maintenance    string
	Capacity, Free int64
	Inaccessible   bool
	// Clusters are names; all of the datacenter's if there is none.
	Clusters []string
}

// Groups are the groups and rules of a compute cluster: hosts and VMs by name of the group, and the rule that joins a group of VMs with one of
// hosts.
type Groups struct {
	Hosts, VMs map[string][]string
	Rules      []Rule
}

// Rule makes the VMs of a group run on the hosts of one.
type Rule struct{ Name, VMs, Hosts string }

// place is where a VM is, to replace it.
type place struct{ cluster string }

// Small is an inventory of one datacenter dc1 with a cluster cluster1: hosts esx1 to esx3, datastores ds1 and ds2, a folder infra-x1 with VMs
// node1 to node3, and a resource pool pool1.
func Small() []Datacenter {
	cluster := Cluster{Name: "cluster1", Pools: []string{"pool1"}}
	for i := 1; i <= 3; i++ {
		host := fmt.Sprintf("esx%d", i)
		cluster.Hosts = append(cluster.Hosts, Host{Name: host})
		cluster.VMs = append(cluster.VMs, VM{Name: fmt.Sprintf("node%d", i), Folder: "infra-x1", Host: host, Disks: 1})
	}
	return []Datacenter{{
		Name: "dc1", Clusters: []Cluster{cluster}, Datastores: []Datastore{{Name: "ds1"}, {Name: "ds2"}}, Folders: []string{"infra-x1"},
	}}
}

// Large is an inventory of one datacenter dc1 with clusters of 20 hosts, and VMs node1 to nodeN spread over them.
func Large(hosts, vms int) []Datacenter {
	dc := Datacenter{Name: "dc1", Datastores: []Datastore{{Name: "ds1"}, {Name: "ds2"}}, Folders: []string{"infra-x1"}}
	for i := range hosts {
		if i%20 == 0 {
			dc.Clusters = append(dc.Clusters, Cluster{Name: fmt.Sprintf("cluster%d", i/20+1)})
		}
		last := &dc.Clusters[len(dc.Clusters)-1]
		last.Hosts = append(last.Hosts, Host{Name: fmt.Sprintf("esx%d", i+1)})
	}
	for i := range vms {
		cluster := &dc.Clusters[i%len(dc.Clusters)]
		host := cluster.Hosts[i/len(dc.Clusters)%len(cluster.Hosts)].Name
		cluster.VMs = append(cluster.VMs, VM{Name: fmt.Sprintf("node%d", i+1), Folder: "infra-x1", Host: host, Disks: 1})
	}
	return []Datacenter{dc}
}

// uuid is that of something at a path that has none of its own.
func (v *VCenter) uuid(path string) string {
	sum := sha256.Sum256([]byte(v.Server + path))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// ProviderID is what the Node has of whom the VM at a path is.
func (v *VCenter) ProviderID(path string) string {
	vm, found := v.machine(path)
	if !found {
		return ""
	}
	return "vsphere://" + vm.Config.Uuid
}

// ProviderIDs are those of all VMs by their names.
func (v *VCenter) ProviderIDs() map[string]string {
	all := map[string]string{}
	for _, path := range v.Paths("VirtualMachine") {
		all[path[strings.LastIndex(path, "/")+1:]] = v.ProviderID(path)
	}
	return all
}

// Ref is the object at a path, such as "/dc1/host/cluster1/esx1" or "/dc1/vm/infra-x1/node1"; zero if there is none.
func (v *VCenter) Ref(path string) types.ManagedObjectReference {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.objects[path]
}

// Path is where an object is.
func (v *VCenter) Path(object types.ManagedObjectReference) string {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.places[object]
}

// Paths are those of all objects of a type, such as "VirtualMachine".
func (v *VCenter) Paths(kind string) []string {
	var all []string
	v.set(func() {
		for path, object := range v.objects {
			if object.Type == kind {
				all = append(all, path)
			}
		}
	})
	return sorted(all)
}

// place remembers where an object is. It is there by its path and its name.
func (v *VCenter) place(path string, object types.ManagedObjectReference) {
	v.set(func() { v.objects[path], v.places[object] = object, path })
}

// displace forgets an object, and takes its tags from it as a vCenter does.
func (v *VCenter) displace(path string) {
	v.set(func() {
		for _, objects := range v.attached {
			delete(objects, v.objects[path])
		}
		delete(v.places, v.objects[path])
		delete(v.objects, path)
		delete(v.vms, path)
	})
}
