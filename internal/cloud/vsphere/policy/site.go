package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// place is the datastore of a failure domain.
type place struct {
	// domain is the name of the failure domain. It is empty for the configuration's default location.
	domain                        string
	server, datacenter, datastore string
}

// site is the state of one vCenter, from which plan derives the steps. It has the result of the last poll, the changes since then, and the failed
// changes.
type site struct {
	vsphere.VCenter
	id     string
	places []place
	// linked is true if another vCenter has objects with the cluster's tag, or may have some. vCenters in linked mode have the same tags.
	linked bool
	// refused are datastores that the vCenter refused to tag or untag. inUse is true if the last query about users of the policy found any.
	refused []vsphere.Ref
	inUse   bool
	// unpolled is true if the tag was deleted after the last poll. A vCenter deletes a category with all its tags. So the operator deletes the category
	// only after the next poll has shown that no other tag exists.
	unpolled bool
}

// sites returns the vCenters of a snapshot, in order. Result "lost" has the places whose vCenters the configuration lacks.
func sites(seen vsphere.Snapshot, want vsphere.Want) (all []*site, lost []place) {
	for _, one := range seen.VCenters {
		s := &site{VCenter: one, id: want.InfrastructureID}
		if tag, ok := s.tag(); ok {
			s.linked = slices.ContainsFunc(seen.VCenters, func(other vsphere.VCenter) bool {
				return other.Server != one.Server && needsLinked(other, tag.ID)
			})
		}
		all = append(all, s)
	}
	for _, one := range places(want) {
		at := slices.IndexFunc(all, func(s *site) bool { return strings.EqualFold(s.Server, one.server) })
		if at < 0 {
			lost = append(lost, one)
			continue
		}
		all[at].places = append(all[at].places, one)
	}
	return all, lost
}

// places returns the places of all failure domains.
func places(want vsphere.Want) (all []place) {
	for _, domain := range want.FailureDomains {
		if domain.Topology.Datastore != "" {
			all = append(all, place{
				domain: domain.Name, server: domain.Server, datacenter: domain.Topology.Datacenter, datastore: domain.Topology.Datastore,
			})
		}
	}
	return all
}

// needsLinked reports whether another vCenter has objects with a tag, or may have some. vCenters in linked mode share categories and tags, with their
// IDs, but each vCenter lists only its own objects. So a tag without objects in one vCenter can have objects in another vCenter.
func needsLinked(other vsphere.VCenter, tagID string) bool {
	if other.Answered.IsZero() {
		return true
	}
	attached := slices.ContainsFunc(other.Attachments, func(one vsphere.Attachment) bool { return one.TagID == tagID })
	return attached || other.Err != nil && (&site{VCenter: other}).hasTag(tagID)
}

func (s *site) hasTag(id string) bool {
	return slices.ContainsFunc(s.Tags, func(tag vsphere.Tag) bool { return tag.ID == id })
}

// answers reports whether the last poll of the vCenter succeeded.
func (s *site) answers() bool { return s.Err == nil && !s.Answered.IsZero() }

// named returns the category with the name CategoryName, whoever owns the category.
func (s *site) named() (vsphere.Category, bool) {
	at := slices.IndexFunc(s.Categories, func(one vsphere.Category) bool { return one.Name == CategoryName(s.id) })
	if at < 0 {
		return vsphere.Category{}, false
	}
	return s.Categories[at], true
}

// category returns the cluster's own category.
func (s *site) category() (vsphere.Category, bool) {
	one, ok := s.named()
	return one, ok && ownsCategory(one, s.id)
}

// tag returns the tag with the cluster's name in the cluster's category. A tag with this name in another category has another owner.
func (s *site) tag() (vsphere.Tag, bool) {
	category, ok := s.category()
	at := slices.IndexFunc(s.Tags, func(one vsphere.Tag) bool { return one.CategoryID == category.ID && one.Name == TagName(s.id) })
	if !ok || at < 0 {
		return vsphere.Tag{}, false
	}
	return s.Tags[at], true
}

// tagged returns the objects with the cluster's tag. The first result has the datastores, and the second has all other objects, such as the VMs and
// folders that the installer tags.
func (s *site) tagged() (datastores, others []vsphere.Ref) {
	tag, ok := s.tag()
	for _, one := range s.Attachments {
		switch {
		case !ok || one.TagID != tag.ID:
		case one.Object.Type == datastoreType:
			datastores = append(datastores, one.Object)
		default:
			others = append(others, one.Object)
		}
	}
	return datastores, others
}

// policies returns the cluster's own policy, in a list of one, or an empty list.
func (s *site) policies() (own []vsphere.Policy) {
	for _, one := range s.Policies {
		if ownsPolicy(one, s.id) {
			own = append(own, one)
		}
	}
	return own
}

// hasForeignPolicy reports whether a policy of another owner has the name that the cluster's policy needs.
func (s *site) hasForeignPolicy() bool {
	return slices.ContainsFunc(s.Policies, func(one vsphere.Policy) bool { return one.Name == Name(s.id) && !ownsPolicy(one, s.id) })
}

// needed returns the sorted names of other owners' policies that use the cluster's tag.
func (s *site) needed() (names []string) {
	for _, one := range s.Policies {
		if needsTag(one, s.id) && !ownsPolicy(one, s.id) {
			names = append(names, one.Name)
		}
	}
	slices.Sort(names)
	return names
}

// wanted returns the datastores of the failure domains, without duplicates, and the places whose datastore was not found.
func (s *site) wanted() (found []vsphere.Datastore, missing []place) {
	for _, one := range s.places {
		datastore, ok := s.locate(one)
		switch {
		case !ok:
			missing = append(missing, one)
		case !slices.ContainsFunc(found, func(have vsphere.Datastore) bool { return have.Ref == datastore.Ref }):
			found = append(found, datastore)
		}
	}
	return found, missing
}

// locate returns the datastore of a place. A place names a datacenter and a datastore in this datacenter. The datastore's name is an absolute path, a
// path below the datacenter's datastore folder, or a name that is unique in the datacenter. The predecessor accepts the same names, because it calls
// find.Finder.Datastore of govmomi v0.55.1. The second result is false if there is no such datastore.
func (s *site) locate(one place) (vsphere.Datastore, bool) {
	var byName []vsphere.Datastore
	for _, datastore := range s.Datastores {
		inside := s.inside(datastore, one.datacenter)
		switch {
		case datastore.Ref == vsphere.Ref{}:
		case datastore.Path == path.Clean(one.datastore):
			return datastore, true
		case inside && datastore.Path == s.root(one.datacenter)+"/datastore/"+one.datastore:
			return datastore, true
		case inside && datastore.Name == one.datastore:
			byName = append(byName, datastore)
		}
	}
	if len(byName) != 1 {
		return vsphere.Datastore{}, false
	}
	return byName[0], true
}

// root returns the inventory path of a datacenter. A failure domain can name the datacenter by its name or by its path.
func (s *site) root(datacenter string) string {
	for _, one := range s.Datacenters {
		if one.Path != "" && (one.Name == datacenter || one.Path == datacenter) {
			return one.Path
		}
	}
	return path.Join("/", datacenter)
}

func (s *site) inside(datastore vsphere.Datastore, datacenter string) bool {
	return datastore.Datacenter == datacenter || datastore.Datacenter == s.root(datacenter)
}

// pathOf returns the path of a datastore, for messages.
func (s *site) pathOf(ref vsphere.Ref) string {
	for _, one := range s.Datastores {
		if one.Ref == ref && one.Path != "" {
			return one.Path
		}
	}
	return ref.Value
}
