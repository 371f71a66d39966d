package fakevsphere

import (
	"fmt"
	"strings"

	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Category is one of tags.
type Category struct {
	ID, Name, Description, Cardinality string
	Types                              []string
}

// Tag is one of a category.
type Tag struct{ ID, Name, Description, CategoryID string }

// Policy is a storage policy. Tags are the rules of the policy that require tags. Other tells whether it has rules of another kind.
type Policy struct {
	ID, Name, Description string
	Tags                  []PolicyTags
	Other                 bool
}

// PolicyTags is a rule that requires one of these tags.
type PolicyTags struct {
	Category string
	Names    []string
}

// Categories are all, by name.
func (v *VCenter) Categories() map[string]Category {
	all := map[string]Category{}
	v.set(func() {
		for _, one := range v.categories {
			all[one.Name] = one
		}
	})
	return all
}

// Tags are all, as "category/name".
func (v *VCenter) Tags() map[string]Tag {
	all := map[string]Tag{}
	v.set(func() {
		for _, one := range v.tags {
			all[v.categories[one.CategoryID].Name+"/"+one.Name] = one
		}
	})
	return all
}

// Attachments are the paths of the objects of each tag, sorted, as "category/name".
func (v *VCenter) Attachments() map[string][]string {
	all := map[string][]string{}
	v.set(func() {
		for id, objects := range v.attached {
			tag := v.tags[id]
			name := v.categories[tag.CategoryID].Name + "/" + tag.Name
			for one := range objects {
				all[name] = sorted(append(all[name], v.places[one]))
			}
		}
	})
	return all
}

// Policies are all but the vCenter's initial policy, by name.
func (v *VCenter) Policies() map[string]Policy {
	all := map[string]Policy{}
	v.set(func() {
		for _, one := range v.policies[1:] {
			profile, _ := one.Constraints.(*pbmtypes.PbmCapabilitySubProfileConstraints)
			tags := rulesByTag(profile)
			all[one.Name] = Policy{
				ID: one.ProfileId.UniqueId, Name: one.Name, Description: one.Description, Tags: tags, Other: len(tags) != capabilities(profile),
			}
		}
	})
	return all
}

// capabilities is how many a policy has.
func capabilities(profile *pbmtypes.PbmCapabilitySubProfileConstraints) int {
	count := 0
	for _, rules := range profile.SubProfiles {
		count += len(rules.Capability)
	}
	return count
}

// rulesByTag are the capabilities of a policy that name tags.
func rulesByTag(profile *pbmtypes.PbmCapabilitySubProfileConstraints) []PolicyTags {
	var all []PolicyTags
	for _, rules := range profile.SubProfiles {
		for _, capability := range rules.Capability {
			if capability.Id.Namespace != tagNamespace {
				continue
			}
			one := PolicyTags{Category: capability.Id.Id}
			for _, constraint := range capability.Constraint {
				for _, property := range constraint.PropertyInstance {
					if set, ok := property.Value.(pbmtypes.PbmCapabilityDiscreteSet); ok {
						for _, value := range set.Values {
							one.Names = append(one.Names, fmt.Sprint(value))
						}
					}
				}
			}
			all = append(all, one)
		}
	}
	return all
}

// SetInUse says which volumes have a storage policy; none ends that.
func (v *VCenter) SetInUse(policyName string, volumes ...string) {
	v.set(func() { v.inUse[policyName] = volumes })
}

// Tag attaches a tag to objects by path. Category and tag are made where there are none, for objects of any type.
func (v *VCenter) Tag(category, tag string, paths ...string) {
	v.set(func() {
		in := v.categoryNamed(category)
		if in == "" {
			in = v.newID("Category")
			v.categories[in] = Category{ID: in, Name: category, Cardinality: "SINGLE", Types: []string{}}
		}
		id, found := v.tagNamed(category, tag)
		if !found {
			id = v.newID("Tag")
			v.tags[id], v.attached[id] = Tag{ID: id, Name: tag, CategoryID: in}, map[types.ManagedObjectReference]bool{}
		}
		for _, path := range paths {
			if object, there := v.objects[path]; there {
				v.attached[id][object] = true
			}
		}
	})
}

// Untag takes a tag from objects by path.
func (v *VCenter) Untag(category, tag string, paths ...string) {
	v.set(func() {
		if id, found := v.tagNamed(category, tag); found {
			for _, path := range paths {
				delete(v.attached[id], v.objects[path])
			}
		}
	})
}

// Left is what a cluster has in the vCenter, one line each, sorted: its category and tags, the objects with them, and its storage policy.
// Names are those of openshift/vmware-vsphere-csi-driver-operator 030ff0e3, pkg/operator/storageclasscontroller/vmware.go.
func (v *VCenter) Left(infrastructureID string) []string {
	left := []string{}
	category, policyName := "openshift-"+infrastructureID, "openshift-storage-policy-"+infrastructureID
	if _, found := v.Categories()[category]; found {
		left = append(left, "category "+category)
	}
	for name := range v.Tags() {
		if strings.HasPrefix(name, category+"/") {
			left = append(left, "tag "+name)
		}
	}
	for name, paths := range v.Attachments() {
		for _, path := range paths {
			if strings.HasPrefix(name, category+"/") {
				left = append(left, "tag "+name+" on "+path)
			}
		}
	}
	if _, found := v.Policies()[policyName]; found {
		left = append(left, "policy "+policyName)
	}
	return sorted(left)
}

// Sessions are how many are open.
func (v *VCenter) Sessions() (soap, rest int) {
	v.set(func() { rest = len(v.tokens) })
	return len(v.soapSessions()), rest
}

// soapSessions returns the keys of open sessions.
func (v *VCenter) soapSessions() []string {
	session := &simulator.Session{Registry: simulator.NewRegistry(), Map: v.registry}
	view, _ := session.Get(v.registry.SessionManager().Self).(*simulator.SessionManager)
	var all []string
	for _, one := range view.SessionList {
		all = append(all, one.Key)
	}
	return all
}

// ExpireSOAPSessions ends all sessions of SOAP, which the policy service shares.
func (v *VCenter) ExpireSOAPSessions() {
	ctx := &simulator.Context{Map: v.registry, Session: &simulator.Session{}}
	v.registry.SessionManager().TerminateSession(ctx, &types.TerminateSession{SessionId: v.soapSessions()})
}

// ExpireRESTSessions ends all sessions of the automation API.
func (v *VCenter) ExpireRESTSessions() { v.set(func() { clear(v.tokens) }) }

// ExpireSessions ends all sessions.
func (v *VCenter) ExpireSessions() {
	v.ExpireSOAPSessions()
	v.ExpireRESTSessions()
}

// Logins are how many logins there were since the last Reset, by SOAP and by REST.
func (v *VCenter) Logins() (soap, rest int) {
	v.set(func() { soap, rest = v.logins["logins"], v.logins["REST logins"] })
	return soap, rest
}

// Logouts are how many sessions were ended by who had them.
func (v *VCenter) Logouts() (soap, rest int) {
	v.set(func() { soap, rest = v.logins["logouts"], v.logins["REST logouts"] })
	return soap, rest
}

// FailedLogins are how many logins of a user were refused. A vCenter locks an account after 5 within 3 minutes by default (vSphere
// documentation, "vCenter Single Sign-On Lockout Policy").
func (v *VCenter) FailedLogins(user string) (count int) {
	v.set(func() { count = v.logins["failed "+canonical(user)] })
	return count
}
