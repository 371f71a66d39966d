package policy

import (
	"context"
	"fmt"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// Event reasons.
const (
	eventCategoryCreated   = "TagCategoryCreated"
	eventTagCreated        = "TagCreated"
	eventDatastoreTagged   = "DatastoreTagged"
	eventPolicyCreated     = "StoragePolicyCreated"
	eventPolicyRemoved     = "StoragePolicyRemoved"
	eventDatastoreUntagged = "DatastoreUntagged"
	eventTagRemoved        = "TagRemoved"
	eventCategoryRemoved   = "TagCategoryRemoved"
)

// act executes a step. If the step creates an object, act returns the object's ID.
func (s Step) act(ctx context.Context, writer vsphere.Writer, id string) (string, error) {
	switch s.Verb {
	case CreateCategory:
		return writer.CreateCategory(ctx, categoryOf(id))
	case CreateTag:
		return writer.CreateTag(ctx, tagOf(id, s.ID))
	case Attach:
		return "", writer.Attach(ctx, s.ID, []vsphere.Ref{s.Datastore})
	case CreatePolicy:
		return writer.CreatePolicy(ctx, policyOf(id))
	case DeletePolicy:
		return "", writer.DeletePolicy(ctx, s.ID)
	case Detach:
		return "", writer.Detach(ctx, s.ID, []vsphere.Ref{s.Datastore})
	case DeleteTag:
		return "", writer.DeleteTag(ctx, s.ID)
	default:
		return "", writer.DeleteCategory(ctx, s.ID)
	}
}

// event returns the event for a completed step.
func (s Step) event(id string) Event {
	switch s.Verb {
	case CreateCategory:
		return Event{eventCategoryCreated, fmt.Sprintf("Created the tag category %s in vCenter %s", s.Name, s.Server)}
	case CreateTag:
		return Event{eventTagCreated, fmt.Sprintf("Created the tag %s of the category %s in vCenter %s", s.Name, CategoryName(id), s.Server)}
	case Attach:
		return Event{eventDatastoreTagged, fmt.Sprintf("Attached the tag %s to the datastore %q of vCenter %s: the storage policy %s places volumes on "+
			"this datastore", TagName(id), s.Name, s.Server, Name(id))}
	case CreatePolicy:
		return Event{eventPolicyCreated, fmt.Sprintf("Created the storage policy %s in vCenter %s", s.Name, s.Server)}
	case DeletePolicy:
		return Event{eventPolicyRemoved, fmt.Sprintf("Deleted the storage policy %s in vCenter %s, because no object used the policy", s.Name, s.Server)}
	case Detach:
		return Event{eventDatastoreUntagged, fmt.Sprintf("Detached the tag %s from the datastore %q of vCenter %s", TagName(id), s.Name, s.Server)}
	case DeleteTag:
		return Event{eventTagRemoved, fmt.Sprintf("Deleted the tag %s of the category %s in vCenter %s, because no object had the tag",
			s.Name, CategoryName(id), s.Server)}
	default:
		return Event{eventCategoryRemoved, fmt.Sprintf("Deleted the tag category %s in vCenter %s, because the category had no other tags",
			s.Name, s.Server)}
	}
}

// privilege returns the privilege that a step requires, and the object on which the user needs it (openshift/vsphere-problem-detector b2f09a5b,
// pkg/check/permissions.go, lines 53 to 62 and 110).
func (s Step) privilege() string {
	const tagging = "InventoryService.Tagging."
	switch s.Verb {
	case CreateCategory:
		return tagging + "CreateCategory on the vCenter"
	case CreateTag:
		return tagging + "CreateTag on the vCenter"
	case Attach, Detach:
		return tagging + "AttachTag on the vCenter and " + tagging + "ObjectAttachable on the datastore"
	case CreatePolicy, DeletePolicy:
		return "StorageProfile.Update and StorageProfile.View on the vCenter"
	case DeleteTag:
		return tagging + "DeleteTag on the vCenter"
	default:
		return tagging + "DeleteCategory on the vCenter"
	}
}
