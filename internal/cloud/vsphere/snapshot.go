// Package vsphere talks to vCenters: it reads one snapshot of each on a schedule, a value that nothing changes afterwards. Who reads can't write; a
// Writer is handed out after a poll, and internal/cloud/vsphere/policy writes.
//
// sites.go has a client for each vCenter, which keeps its session until the login, the configuration or the CAs change. look.go asks: the inventory
// by one view, privileges, tags and policies. survey.go picks what is of the cluster, and merge.go keeps the last answer of a vCenter that does not
// answer. Both are pure.
package vsphere

import (
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// Ref names an object of a vCenter, such as a VM or a datastore. It is unique in its vCenter only.
type Ref = types.ManagedObjectReference

// Snapshot is what all vCenters of the cluster said in one poll. It is a value that nobody changes.
type Snapshot struct {
	// Taken is when the poll ended; zero if there was none since the operator started.
	Taken time.Time
	// VCenters are those of the configuration, in its order.
	VCenters []VCenter
}

// VCenter is what one vCenter has said. With Err, everything but Server and Insecure is of the last poll that worked, at Answered.
type VCenter struct {
	// Server is the name or address, as the configuration has it.
	Server string
	// Insecure means that its certificate is not verified, because the configuration says so.
	Insecure bool
	// Answered is when it answered all questions last; zero if never.
	Answered time.Time
	// Err is why the last poll failed. FailingSince is when the first of the failures in a row was.
	Err          *Error
	FailingSince time.Time

	// Version is such as "8.0.2", Build such as "22617221", APIVersion such as "8.0.2.0".
	Version, Build, APIVersion string
	// User is the one of the session, as the vCenter has it, and Login the one of the Secret. Both are without the password.
	User, Login string

	Datacenters []Datacenter
	Clusters    []ComputeCluster
	Hosts       []Host
	VMs         []VM
	Datastores  []Datastore
	Folders     []Folder
	Pools       []ResourcePool
	Categories  []Category
	Tags        []Tag
	Attachments []Attachment
	Policies    []Policy
	Privileges  []Privileges
	// CanReadTasks tells whether the user may list recent tasks, which the driver does.
	CanReadTasks bool
}

// Datacenter is one that the configuration or a failure domain names.
type Datacenter struct {
	// Ref is zero if there is no such datacenter.
	Ref Ref
	// Path is such as "/dc1"; Name is what the configuration says.
	Path, Name string
}

// ComputeCluster is one that a failure domain names, or a host of a node is in.
type ComputeCluster struct {
	Ref  Ref
	Path string
	// Datacenter is the path of the one that it is in.
	Datacenter string
	// HostGroups has the hosts by the name of the group; VMGroups and VMHostRules are names.
	HostGroups            map[string][]Ref
	VMGroups, VMHostRules []string
	// Ancestors are the folders and the datacenter that it is in, from the nearest.
	Ancestors []Ref
	// Datastores are those that its hosts mount.
	Datastores []Ref
}

// Host is an ESXi host on which a node runs, or that is in a compute cluster of a failure domain.
type Host struct {
	Ref     Ref
	Name    string
	Cluster Ref
	// Version is such as "7.0.3", Build such as "19193900"; APIVersion such as "7.0.3.0".
	Version, Build, APIVersion string
	// Connected is false if the vCenter does not reach it.
	Connected bool
	// Datastores are those that it mounts.
	Datastores []Ref
}

// VM is that of a node.
type VM struct {
	Ref  Ref
	Name string
	// UUID is config.uuid in lower case, by which providerID names the VM.
	UUID string
	// Hardware is the version of the virtual hardware, for example 15; 0 if it could not be read.
	Hardware int
	Host     Ref
	Pool     Ref
	// DiskUUID tells whether disk.enableUUID is on; without it, a node can't find its disks.
	DiskUUID bool
	// CBT tells whether changed block tracking is on (ctkEnabled).
	CBT bool
	// Disks are how many virtual disks it has.
	Disks int
	// ExtraConfig are advanced settings of the VM by key, as far as checks ask for them.
	ExtraConfig map[string]string
}

// Datastore is one of a failure domain, of the default of the configuration, or one that a StorageClass or PV names.
type Datastore struct {
	Ref        Ref
	Path, Name string
	// URL is such as "ds:///vmfs/volumes/52cdfa80721ff516-ea1e993113acfc77/".
	URL string
	// Type is such as "VMFS", "vsan" or "NFS".
	Type       string
	Datacenter string
	Accessible bool
	// Maintenance is such as "normal" or "inMaintenance".
	Maintenance string
	// Capacity and Free are in bytes.
	Capacity, Free int64
}

// Folder is that of VMs of the cluster.
type Folder struct {
	// Ref is zero if there is no such folder.
	Ref  Ref
	Path string
}

// ResourcePool is one that a failure domain names, or a VM of a node is in.
type ResourcePool struct {
	// Ref is zero if there is no such pool.
	Ref  Ref
	Path string
}

// Category is one of tags.
type Category struct {
	ID, Name, Description string
	// Cardinality is SINGLE or MULTIPLE.
	Cardinality string
	// Types are the types of objects that its tags can be attached to; empty is all.
	Types []string
}

// Tag is one of the categories openshift-region, openshift-zone and of the cluster's own.
type Tag struct {
	ID, Name, Description, CategoryID string
}

// Attachment says that an object has a tag.
type Attachment struct {
	TagID  string
	Object Ref
}

// Policy is a storage policy.
type Policy struct {
	ID, Name, Description string
	// Tags are the rules by tag: a datastore must have one of the names, of the category. Other means that it has other rules besides.
	Tags  []PolicyTags
	Other bool
}

// PolicyTags is a rule of a policy.
type PolicyTags struct {
	Category string
	Names    []string
}

// Privileges say what the user lacks on an object.
type Privileges struct {
	// Kind is one of the Kind constants.
	Kind PrivilegeKind
	Ref  Ref
	// Path names the object to people.
	Path string
	// Missing are the privileges that the user lacks, sorted, of those that the kind asks for.
	Missing []string
}

// PrivilegeKind is what an object is, for what the user must be able to do there.
type PrivilegeKind string

// The kinds of objects on which privileges are looked at.
const (
	OnVCenter      PrivilegeKind = "vcenter"
	OnDatacenter   PrivilegeKind = "datacenter"
	OnCluster      PrivilegeKind = "cluster"
	OnFolder       PrivilegeKind = "folder"
	OnDatastore    PrivilegeKind = "datastore"
	OnResourcePool PrivilegeKind = "resource pool"
)

// Of is what the vCenter of a name has said, and whether the configuration has it.
func (s Snapshot) Of(server string) (VCenter, bool) {
	for _, one := range s.VCenters {
		// Names of hosts are the same in upper case.
		if strings.EqualFold(one.Server, server) {
			return one, true
		}
	}
	return VCenter{}, false
}
