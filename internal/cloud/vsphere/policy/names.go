package policy

import (
	"slices"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// Names that the installer and the predecessor use: openshift/vmware-vsphere-csi-driver-operator 030ff0e3,
// pkg/operator/storageclasscontroller/vmware.go, lines 30, 31, 84-86, 284-289, 317-321, 363-389. The installer creates category and tag with the same
// names for VMs and folders. When the installer destroys the cluster, it finds the objects to delete by this tag.
const (
	// description is the description of category and tag. The installer and the predecessor set it and compare it, so ours must be identical.
	description   = "Added by openshift-install do not remove"
	single        = "SINGLE"
	datastoreType = "Datastore"
)

// Name returns the name of a cluster's storage policy.
func Name(infrastructureID string) string { return "openshift-storage-policy-" + infrastructureID }

// CategoryName returns the name of the category of the cluster's tag.
func CategoryName(infrastructureID string) string { return "openshift-" + infrastructureID }

// TagName returns the name of a cluster's tag: its infrastructure ID, without a prefix.
func TagName(infrastructureID string) string { return infrastructureID }

// types returns the object types for the cluster's tag. They are sorted, because a vCenter treats a list in another order as a different list
// (vmware.go, lines 500 to 502: see the constants above).
func types() []string {
	return []string{datastoreType, "Folder", "ResourcePool", "StoragePod", "VirtualMachine"}
}

func categoryOf(id string) vsphere.Category {
	return vsphere.Category{Name: CategoryName(id), Description: description, Cardinality: single, Types: types()}
}

func tagOf(id, categoryID string) vsphere.Tag {
	return vsphere.Tag{Name: TagName(id), Description: description, CategoryID: categoryID}
}

// policyOf returns the policy to create. Like the predecessor's policy, it has no description. ownsPolicy recognizes the policy by its name and its
// rule.
func policyOf(id string) vsphere.Policy {
	return vsphere.Policy{Name: Name(id), Tags: []vsphere.PolicyTags{{Category: CategoryName(id), Names: []string{TagName(id)}}}}
}

// ownsCategory reports whether the installer, the predecessor or this operator created a category. The name must match. In addition, either the
// description must match, or the cardinality must match and the category's types must include the result of types. Administrators edit descriptions,
// and the predecessor adds types.
func ownsCategory(one vsphere.Category, id string) bool {
	if one.Name != CategoryName(id) {
		return false
	}
	return one.Description == description || one.Cardinality == single && allows(one.Types, types()...)
}

// allowsDatastores reports whether tags of a category can be attached to datastores.
func allowsDatastores(one vsphere.Category) bool {
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

// ownsPolicy reports whether the cluster owns a policy: it has the expected name, and its only rule is the cluster's tag.
//
// A vCenter does not record who created a policy. If someone changed the policy's rule, the operator assumes that the policy belongs to an
// administrator. An update could move volumes, so the operator only reports such a policy. When an administrator restores the rule or renames the
// policy, the operator continues.
func ownsPolicy(one vsphere.Policy, id string) bool {
	return one.Name == Name(id) && !one.Other && len(one.Tags) == 1 && one.Tags[0].Category == CategoryName(id) &&
		slices.Equal(one.Tags[0].Names, []string{TagName(id)})
}

// needsTag reports whether a policy has a rule with the cluster's category, whoever owns the policy.
func needsTag(one vsphere.Policy, id string) bool {
	return slices.ContainsFunc(one.Tags, func(rule vsphere.PolicyTags) bool { return rule.Category == CategoryName(id) })
}
