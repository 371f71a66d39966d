package policy

import (
	"slices"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// What the installer and the predecessor call things, openshift/vmware-vsphere-csi-driver-operator 030ff0e3,
// pkg/operator/storageclasscontroller/vmware.go: names in lines 30, 31 and 84 to 86, category in 284 to 289, tag in 317 to 321, policy in 363 to 389.
// The installer makes category and tag of the same names for VMs and folders, and finds by them what it deletes with a cluster.
const (
	// description is what both write on category and tag. It is compared, so it has to be the same to the letter.
	description   = "Added by openshift-install do not remove"
	single        = "SINGLE"
	datastoreType = "Datastore"
)

// Name is that of the storage policy of a cluster.
func Name(infrastructureID string) string { return "openshift-storage-policy-" + infrastructureID }

// CategoryName is that of the category of the cluster's tag.
func CategoryName(infrastructureID string) string { return "openshift-" + infrastructureID }

// TagName is that of the tag of a cluster: its infrastructure ID, without a prefix.
func TagName(infrastructureID string) string { return infrastructureID }

// types are those of objects that the cluster's tag can be attached to, sorted: a vCenter compares them in their order (lines 500 to 502).
func types() []string {
	return []string{datastoreType, "Folder", "ResourcePool", "StoragePod", "VirtualMachine"}
}

func categoryOf(id string) vsphere.Category {
	return vsphere.Category{Name: CategoryName(id), Description: description, Cardinality: single, Types: types()}
}

func tagOf(id, categoryID string) vsphere.Tag {
	return vsphere.Tag{Name: TagName(id), Description: description, CategoryID: categoryID}
}

// policyOf has no description, as that of the predecessor: its rule says whose it is.
func policyOf(id string) vsphere.Policy {
	return vsphere.Policy{Name: Name(id), Tags: []vsphere.PolicyTags{{Category: CategoryName(id), Names: []string{TagName(id)}}}}
}

// ownsCategory tells whether the installer, the predecessor or this operator has made a category. Administrators edit descriptions, and the
// predecessor adds types: either sign is enough.
func ownsCategory(one vsphere.Category, id string) bool {
	if one.Name != CategoryName(id) {
		return false
	}
	return one.Description == description || one.Cardinality == single && allows(one.Types, types()...)
}

// takesDatastores tells whether tags of a category can be attached to datastores.
func takesDatastores(one vsphere.Category) bool {
	return len(one.Types) == 0 || allows(one.Types, datastoreType)
}

func allows(have []string, wanted ...string) bool {
	for _, kind := range wanted {
		if !slices.Contains(have, kind) {
			return false
		}
	}
	return true
}

// ownsPolicy tells whether a policy is the cluster's: it has the name, and places by the cluster's tag and by nothing else.
//
// A policy that somebody has given another rule is not ours any more. It looks like one that an administrator made under this name,
// because a restart forgets what was seen, and nothing in a vCenter says who made a policy. To write over it could move volumes, so the operator
// only reports it. With the old rule again, or under another name, it is out of the way, and the next poll goes on.
func ownsPolicy(one vsphere.Policy, id string) bool {
	return one.Name == Name(id) && !one.Other && len(one.Tags) == 1 && one.Tags[0].Category == CategoryName(id) &&
		slices.Equal(one.Tags[0].Names, []string{TagName(id)})
}

// needsTag tells whether a policy places by the cluster's category, whoever made it.
func needsTag(one vsphere.Policy, id string) bool {
	return slices.ContainsFunc(one.Tags, func(rule vsphere.PolicyTags) bool { return rule.Category == CategoryName(id) })
}
