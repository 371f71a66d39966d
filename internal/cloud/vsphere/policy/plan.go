package policy

import (
	"slices"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// Verb is the action of a step.
type Verb string

// All verbs.
const (
	CreateCategory Verb = "create tag category"
	CreateTag      Verb = "create tag"
	Attach         Verb = "attach tag"
	CreatePolicy   Verb = "create storage policy"
	DeletePolicy   Verb = "delete storage policy"
	Detach         Verb = "detach tag"
	DeleteTag      Verb = "delete tag"
	DeleteCategory Verb = "delete tag category"
)

// Step is one change in one vCenter.
type Step struct {
	Server string
	Verb   Verb
	// Name is the name of the object to create, delete or tag, for messages. For a datastore, it is the path.
	Name string
	// ID is the ID of the object to delete. For CreateTag, it is the ID of the category. For Attach and Detach, it is the ID of the tag.
	ID string
	// Datastore is the datastore to tag or untag.
	Datastore vsphere.Ref
}

// maxSteps limits the steps in one vCenter after one poll.
const maxSteps = 1000

// plan returns the steps in order. The IDs of objects that earlier steps create are empty.
//
// The plan depends only on what exists. So if the operator is killed after a step, it continues with the next step.
func (s *site) plan(removed bool) (plan []Step) {
	future := *s
	for range maxSteps {
		step, ok := future.next(removed)
		if !ok {
			break
		}
		plan = append(plan, step)
		future.done(step, "")
	}
	return plan
}

// next returns the next step in a vCenter.
func (s *site) next(removed bool) (Step, bool) {
	step, ok := Step{}, false
	switch {
	case !s.answers() || s.id == "":
	case removed:
		step, ok = s.remove()
	default:
		step, ok = s.ensure()
	}
	step.Server = s.Server
	return step, ok
}

// ensure returns the next step to create category, tag, attachments and policy, in this order. The second result is false if no step is needed or
// possible. The policy is the last, because it can place no volume before datastores have the tag.
func (s *site) ensure() (Step, bool) {
	wanted, missing := s.wanted()
	if len(wanted) == 0 || s.blocked() {
		return Step{}, false
	}
	category, ok := s.category()
	if !ok {
		return Step{Verb: CreateCategory, Name: CategoryName(s.id)}, true
	}
	tag, ok := s.tag()
	if !ok {
		return Step{Verb: CreateTag, Name: TagName(s.id), ID: category.ID}, true
	}
	tagged, _ := s.tagged()
	usable := false
	for _, one := range wanted {
		has := slices.Contains(tagged, one.Ref)
		if !has && !slices.Contains(s.refused, one.Ref) {
			return Step{Verb: Attach, Name: s.pathOf(one.Ref), ID: tag.ID, Datastore: one.Ref}, true
		}
		usable = usable || has
	}
	if usable && len(s.policies()) == 0 {
		return Step{Verb: CreatePolicy, Name: Name(s.id)}, true
	}
	if len(missing) > 0 || s.inUse || len(s.needed()) > 0 {
		return Step{}, false
	}
	return s.untag(s.surplus())
}

// blocked reports whether the Keeper must create nothing in this vCenter. It returns true if a policy or category of another owner has a name that
// the cluster needs, or if tags of the category can't be attached to datastores.
func (s *site) blocked() bool {
	category, ok := s.named()
	return s.hasForeignPolicy() || ok && (!ownsCategory(category, s.id) || !allowsDatastores(category))
}

// surplus returns the tagged datastores that no failure domain names. The operator untags them only if it has found the datastores of all failure
// domains, because a list that lacks one datastore can lack others, too. The operator does not untag a datastore while anything uses the policy.
// Without the tag, a volume on this datastore would violate its policy, and a vCenter does not report this violation. An administrator may also have
// tagged a second datastore on purpose.
func (s *site) surplus() []vsphere.Ref {
	wanted, _ := s.wanted()
	tagged, _ := s.tagged()
	return slices.DeleteFunc(tagged, func(ref vsphere.Ref) bool {
		return slices.ContainsFunc(wanted, func(one vsphere.Datastore) bool { return one.Ref == ref })
	})
}

// untag returns the step that detaches the tag from the first of these datastores. It skips datastores from which the vCenter has already refused to
// detach the tag.
func (s *site) untag(from []vsphere.Ref) (Step, bool) {
	for _, ref := range from {
		if tag, ok := s.tag(); ok && !slices.Contains(s.refused, ref) {
			return Step{Verb: Detach, Name: s.pathOf(ref), ID: tag.ID, Datastore: ref}, true
		}
	}
	return Step{}, false
}

// remove returns the next step to delete policy, attachments, tag and category, in this order. The second result is false if no step is possible.
// Before the Keeper deletes the policy or the tag, it checks that nothing uses it. The Keeper never deletes a tag or category that VMs, folders or
// other policies need. Such a tag or category belongs to the owner of these VMs, folders or policies.
func (s *site) remove() (Step, bool) {
	if own := s.policies(); len(own) > 0 {
		return Step{Verb: DeletePolicy, Name: own[0].Name, ID: own[0].ID}, true
	}
	category, ok := s.category()
	if !ok || len(s.needed()) > 0 {
		return Step{}, false
	}
	datastores, others := s.tagged()
	if step, ok := s.untag(datastores); ok || len(datastores) > 0 {
		return step, ok
	}
	if tag, ok := s.tag(); ok {
		return Step{Verb: DeleteTag, Name: tag.Name, ID: tag.ID}, len(others) == 0 && !s.linked
	}
	if slices.ContainsFunc(s.Tags, func(tag vsphere.Tag) bool { return tag.CategoryID == category.ID }) {
		return Step{}, false
	}
	return Step{Verb: DeleteCategory, Name: category.Name, ID: category.ID}, true
}

// done applies the effect of a step to the site. It does not change the snapshot.
func (s *site) done(step Step, id string) {
	switch step.Verb {
	case CreateCategory:
		one := categoryOf(s.id)
		one.ID = id
		s.Categories = append(slices.Clip(s.Categories), one)
	case CreateTag:
		one := tagOf(s.id, step.ID)
		one.ID = id
		s.Tags = append(slices.Clip(s.Tags), one)
	case Attach:
		s.Attachments = append(slices.Clip(s.Attachments), vsphere.Attachment{TagID: step.ID, Object: step.Datastore})
	case CreatePolicy:
		one := policyOf(s.id)
		one.ID = id
		s.Policies = append(slices.Clip(s.Policies), one)
	case DeletePolicy:
		s.Policies = without(s.Policies, func(one vsphere.Policy) bool { return one.ID == step.ID && ownsPolicy(one, s.id) })
	case Detach:
		s.Attachments = without(s.Attachments, func(one vsphere.Attachment) bool { return one.TagID == step.ID && one.Object == step.Datastore })
	case DeleteTag:
		s.Tags = without(s.Tags, func(one vsphere.Tag) bool { return one.ID == step.ID })
	case DeleteCategory:
		s.Categories = without(s.Categories, func(one vsphere.Category) bool { return one.ID == step.ID })
	}
}

func without[T any](all []T, gone func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), gone)
}
