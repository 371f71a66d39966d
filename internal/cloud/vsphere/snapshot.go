// Package vsphere polls vCenters on a schedule, and publishes an immutable snapshot. A reader of the snapshot can't change a vCenter. Only
// internal/cloud/vsphere/policy can, because the poller passes it a Writer after each poll.
//
// sites.go has a client for each vCenter, which keeps its session until the login, the configuration or the CAs change. observe.go reads the
// inventory, the privileges, the tags and the policies. errors.go turns failures into reasons. survey.go selects the objects of the cluster, and
// merge.go keeps the last answer of a vCenter that does not answer.
package vsphere

import (
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// Ref is a reference to an object of a vCenter, such as a VM or a datastore. Another vCenter can have an object with the same reference.
type Ref = types.ManagedObjectReference

// Snapshot has the answers of all vCenters in one poll. It is immutable.
type Snapshot struct {
	// Taken is the end of the poll. It is zero before the first poll since the operator started.
	Taken time.Time
	// VCenters are in the order of the configuration.
	VCenters []VCenter
}

// VCenter is the answer of one vCenter. If Err is set, all data is from the last successful poll, which was at the time Answered.
type VCenter struct {
	// Server is the name or address in the configuration.
	Server string
	// Insecure means that the configuration disables the verification of the vCenter's certificate.
	Insecure bool
	// Answered is the time of the last successful poll. It is zero if no poll has succeeded.
	Answered time.Time
	// Err is the error of the last poll. FailingSince is the time of the first of the failures in a row.
	Err          *Error
	FailingSince time.Time

	// Examples: Version "8.0.2", Build "22617221", APIVersion "8.0.2.0".
	Version, Build, APIVersion string
	// User is the session's user as the vCenter names it. Login is the user in the Secret.
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
	// CanReadTasks is true if the user has the privilege to list recent tasks, as the driver does.
	CanReadTasks bool
}

// Datacenter is a datacenter that the configuration or a failure domain names.
type Datacenter struct {
	// Ref is zero if the datacenter does not exist.
	Ref Ref
	// Path is, for example, "/dc1". Name is the datacenter's name in the configuration.
	Path, Name string
}

// ComputeCluster is a compute cluster that a failure domain names, or that has the host of a node.
type ComputeCluster struct {
	Ref  Ref
	Path string
	// Datacenter is the path of the cluster's datacenter.
	Datacenter string
	// HostGroups maps the name of a host group to its hosts. VMGroups has the names of the VM groups, and VMHostRules has the names of the rules.
	HostGroups            map[string][]Ref
	VMGroups, VMHostRules []string
	// Ancestors are the cluster's folders and datacenter, the nearest first.
	Ancestors []Ref
	// Datastores are the datastores that hosts of the cluster mount.
	Datastores []Ref
}

// Host is an ESXi host that runs a node or belongs to a compute cluster of a failure domain.
type Host struct {
	Ref     Ref
	Name    string
	Cluster Ref
	// Examples: Version "7.0.3", Build "19193900", APIVersion "7.0.3.0".
	Version, Build, APIVersion string
	// Connected is false if the vCenter can't reach the host.
	Connected bool
	// Datastores are the datastores that the host mounts.
	Datastores []Ref
}

// VM is the VM of a node.
type VM struct {
	Ref  Ref
	Name string
	// UUID is config.uuid in lower case. The node's providerID contains this UUID.
	UUID string
	// Hardware is the version of the virtual hardware, for example 15. It is 0 if the user can't read it.
	Hardware int
	Host     Ref
	Pool     Ref
	// DiskUUID is true if disk.enableUUID is on. Nodes need this setting to find their disks.
	DiskUUID bool
	// CBT is true if changed block tracking is on (ctkEnabled).
	CBT bool
	// Disks is the number of virtual disks.
	Disks int
}

// Datastore is a datastore that a failure domain, the configuration's default, a StorageClass or a PV names.
type Datastore struct {
	Ref        Ref
	Path, Name string
	// URL is, for example, "ds:///vmfs/volumes/52cdfa80721ff516-ea1e993113acfc77/".
	URL string
	// Type is, for example, "VMFS", "vsan" or "NFS".
	Type       string
	Datacenter string
	Accessible bool
	// Maintenance is, for example, "normal" or "inMaintenance".
	Maintenance string
	// Capacity and Free are in bytes.
	Capacity, Free int64
}

// Folder is a folder with VMs of the cluster.
type Folder struct {
	// Ref is zero if the folder does not exist.
	Ref  Ref
	Path string
}

// ResourcePool is a resource pool that a failure domain names, or that has a node's VM.
type ResourcePool struct {
	// Ref is zero if the pool does not exist.
	Ref  Ref
	Path string
}

// Category is a tag category.
type Category struct {
	ID, Name, Description string
	// Cardinality is SINGLE or MULTIPLE.
	Cardinality string
	// Types are the object types to which tags of this category can be attached. If the list is empty, tags of this category can be attached to objects
	// of all types.
	Types []string
}

// Tag is a tag of category openshift-region, of openshift-zone, or of the cluster's own category.
type Tag struct {
	ID, Name, Description, CategoryID string
}

// Attachment is a tag on an object.
type Attachment struct {
	TagID  string
	Object Ref
}

// Policy is a storage policy.
type Policy struct {
	ID, Name, Description string
	// Tags has the policy's rules about tags. Each rule says that a datastore must have one of the named tags of a category. Other means that Tags does
	// not describe the policy completely (see readRules).
	Tags  []PolicyTags
	Other bool
}

// PolicyTags is one rule of a policy. It says that a datastore must have one of these tags, which belong to one category.
type PolicyTags struct {
	Category string
	Names    []string
}

// Privileges lists the privileges that the user lacks on an object.
type Privileges struct {
	// Kind is one of the constants of PrivilegeKind.
	Kind PrivilegeKind
	Ref  Ref
	// Path is the path of the object, for messages.
	Path string
	// Missing are the privileges that this kind of object requires and that the user lacks, sorted.
	Missing []string
}

// PrivilegeKind is the kind of an object, which decides the required privileges.
type PrivilegeKind string

// Kinds of objects on which the poller checks privileges.
const (
	OnVCenter      PrivilegeKind = "vcenter"
	OnDatacenter   PrivilegeKind = "datacenter"
	OnCluster      PrivilegeKind = "cluster"
	OnFolder       PrivilegeKind = "folder"
	OnDatastore    PrivilegeKind = "datastore"
	OnResourcePool PrivilegeKind = "resource pool"
)

// Of returns the vCenter with this name, and whether the configuration has such a vCenter.
func (s Snapshot) Of(server string) (VCenter, bool) {
	for _, one := range s.VCenters {
		// Host names are case-insensitive.
		if strings.EqualFold(one.Server, server) {
			return one, true
		}
	}
	return VCenter{}, false
}
