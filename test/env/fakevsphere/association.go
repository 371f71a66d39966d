package fakevsphere

import (
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"
)

// why is the refusal to attach or detach a tag, where the object is there. An object that is not there can't be told from one that the user may
// not see: both are unauthorized (govmomi vapi/tags/tag_association.go).
func (v *VCenter) why(c call, object types.ManagedObjectReference) refusal {
	there := v.registry.Get(object) != nil
	if !there || !v.granted(c.user, v.root(), mayAttach) || !v.granted(c.user, object, attachable) {
		return unauthorized
	}
	return ""
}

// put attaches a tag. A tag is refused on an object of a type that its category has not, and where the category lets an object have one of its
// tags only and it has another (vSphere Automation API reference, TagAssociation.attach).
func (v *VCenter) put(c call, object types.ManagedObjectReference) (refused refusal) {
	if refused := v.why(c, object); refused != "" {
		return refused
	}
	v.set(func() {
		tag, found := v.tags[c.id]
		if !found {
			refused = notFound
			return
		}
		category := v.categories[tag.CategoryID]
		if !category.eligible(object.Type) {
			refused = invalidArgument
			return
		}
		for id, objects := range v.attached {
			if category.Cardinality == "SINGLE" && id != tag.ID && v.tags[id].CategoryID == category.ID && objects[object] {
				refused = invalidArgument
				return
			}
		}
		v.attached[tag.ID][object] = true
	})
	return refused
}

// remove detaches a tag. It is no error if the object has it not.
func (v *VCenter) remove(c call, object types.ManagedObjectReference) (refused refusal) {
	if refused := v.why(c, object); refused != "" {
		return refused
	}
	v.set(func() {
		if _, found := v.tags[c.id]; !found {
			refused = notFound
			return
		}
		delete(v.attached[c.id], object)
	})
	return refused
}

func (v *VCenter) attach(c call) (any, refusal) {
	if c.body.Object == nil {
		return nil, invalidArgument
	}
	return nil, v.put(c, c.body.Object.ref())
}

func (v *VCenter) detach(c call) (any, refusal) {
	if c.body.Object == nil {
		return nil, invalidArgument
	}
	return nil, v.remove(c, c.body.Object.ref())
}

// attachMany does what it can, and answers with status 200 what it could not do (vSphere Automation API reference, TagAssociation.BatchResult).
// The simulator answers nothing.
func (v *VCenter) attachMany(c call) (any, refusal) {
	found := false
	v.set(func() { _, found = v.tags[c.id] })
	if !found {
		return nil, notFound
	}
	problems := []map[string]any{}
	for _, one := range c.body.Objects {
		if refused := v.put(c, one.ref()); refused != "" {
			problems = append(problems, map[string]any{
				"id": "cis.tagging." + string(refused), "default_message": "The object " + one.ID + " was refused.", "args": []string{one.ID},
			})
		}
	}
	return map[string]any{"success": len(problems) == 0, "error_messages": problems}, ""
}

// objectsOf are those of a tag, sorted; the mutex is held.
func (v *VCenter) objectsOf(tag string) []moid {
	all := []moid{}
	for one := range v.attached[tag] {
		all = append(all, moid{Type: one.Type, ID: one.Value})
	}
	slices.SortFunc(all, func(a, b moid) int { return strings.Compare(a.Type+a.ID, b.Type+b.ID) })
	return all
}

func (v *VCenter) attachedObjectsOnTags(c call) (value any, refused refusal) {
	v.set(func() {
		list := []map[string]any{}
		for _, id := range c.body.Tags {
			// Tags that are not there are left out (vSphere Automation API reference, TagAssociation.listAttachedObjectsOnTags).
			if _, found := v.tags[id]; found {
				list = append(list, map[string]any{"tag_id": id, "object_ids": v.objectsOf(id)})
			}
		}
		value = list
	})
	return value, refused
}
