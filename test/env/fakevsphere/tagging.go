package fakevsphere

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"
)

// Privileges of tagging (vSphere documentation, "vSphere Tagging Privileges").
const (
	mayCreateCategory = "InventoryService.Tagging.CreateCategory"
	mayDeleteCategory = "InventoryService.Tagging.DeleteCategory"
	mayCreateTag      = "InventoryService.Tagging.CreateTag"
	mayDeleteTag      = "InventoryService.Tagging.DeleteTag"
	mayAttach         = "InventoryService.Tagging.AttachTag"
	attachable        = "InventoryService.Tagging.ObjectAttachable"
)

// may is the refusal for who lacks a privilege on the vCenter.
func (v *VCenter) may(c call, privilege string) refusal {
	if v.granted(c.user, v.root(), privilege) {
		return ""
	}
	return unauthorized
}

// newID is one that is like a vCenter's, and that no other has: only those in linked mode share tags. The mutex is held.
func (v *VCenter) newID(kind string) string {
	v.created++
	return fmt.Sprintf("urn:vmomi:InventoryService%s:%s-0000-4000-8000-%012d:GLOBAL", kind, v.uuid("tags")[:8], v.created)
}

func (v *VCenter) categoryList(call) (value any, refused refusal) {
	v.set(func() { value = keys(v.categories) })
	return value, ""
}

func (v *VCenter) categoryGet(c call) (value any, refused refusal) {
	refused = notFound
	v.set(func() {
		if one, found := v.categories[c.id]; found {
			value, refused = one.wire(), ""
		}
	})
	return value, refused
}

func (c Category) wire() any {
	return map[string]any{
		"id": c.ID, "name": c.Name, "description": c.Description, "cardinality": c.Cardinality, "associable_types": c.Types, "used_by": []string{},
	}
}

// categoryCreate refuses a name that there is. A specification without one of its fields is invalid (govmomi vapi/tags/categories.go).
func (v *VCenter) categoryCreate(c call) (value any, refused refusal) {
	if refused := v.may(c, mayCreateCategory); refused != "" {
		return nil, refused
	}
	spec := c.body.Create
	if spec == nil || spec.Name == nil || *spec.Name == "" || spec.Description == nil || spec.Types == nil || spec.Cardinality == nil ||
		!slices.Contains([]string{"SINGLE", "MULTIPLE"}, *spec.Cardinality) {
		return nil, invalidArgument
	}
	v.set(func() {
		if v.categoryNamed(*spec.Name) != "" {
			refused = alreadyExists
			return
		}
		one := Category{
			ID: v.newID("Category"), Name: *spec.Name, Description: *spec.Description, Cardinality: *spec.Cardinality, Types: slices.Clone(*spec.Types),
		}
		v.categories[one.ID], value = one, one.ID
	})
	return value, refused
}

// categoryDelete deletes its tags too, as a vCenter does.
func (v *VCenter) categoryDelete(c call) (value any, refused refusal) {
	if refused := v.may(c, mayDeleteCategory); refused != "" {
		return nil, refused
	}
	v.set(func() {
		if _, found := v.categories[c.id]; !found {
			refused = notFound
			return
		}
		delete(v.categories, c.id)
		for id, tag := range v.tags {
			if tag.CategoryID == c.id {
				delete(v.tags, id)
				delete(v.attached, id)
			}
		}
	})
	return nil, refused
}

func (v *VCenter) tagList(call) (value any, refused refusal) {
	v.set(func() { value = keys(v.tags) })
	return value, ""
}

func (v *VCenter) tagsForCategory(c call) (value any, refused refusal) {
	v.set(func() {
		if _, found := v.categories[c.id]; !found {
			refused = notFound
			return
		}
		list := []string{}
		for _, id := range keys(v.tags) {
			if v.tags[id].CategoryID == c.id {
				list = append(list, id)
			}
		}
		value = list
	})
	return value, refused
}

func (v *VCenter) tagGet(c call) (value any, refused refusal) {
	refused = notFound
	v.set(func() {
		if one, found := v.tags[c.id]; found {
			refused = ""
			value = map[string]any{"id": one.ID, "name": one.Name, "description": one.Description, "category_id": one.CategoryID, "used_by": []string{}}
		}
	})
	return value, refused
}

// tagCreate refuses a name that the category has.
func (v *VCenter) tagCreate(c call) (value any, refused refusal) {
	if refused := v.may(c, mayCreateTag); refused != "" {
		return nil, refused
	}
	spec := c.body.Create
	if spec == nil || spec.Name == nil || *spec.Name == "" || spec.Description == nil || spec.CategoryID == nil {
		return nil, invalidArgument
	}
	v.set(func() {
		category, found := v.categories[*spec.CategoryID]
		if !found {
			refused = notFound
			return
		}
		if _, found := v.tagNamed(category.Name, *spec.Name); found {
			refused = alreadyExists
			return
		}
		one := Tag{ID: v.newID("Tag"), Name: *spec.Name, Description: *spec.Description, CategoryID: category.ID}
		v.tags[one.ID], v.attached[one.ID], value = one, map[types.ManagedObjectReference]bool{}, one.ID
	})
	return value, refused
}

func (v *VCenter) tagDelete(c call) (value any, refused refusal) {
	if refused := v.may(c, mayDeleteTag); refused != "" {
		return nil, refused
	}
	v.set(func() {
		if _, found := v.tags[c.id]; !found {
			refused = notFound
			return
		}
		delete(v.tags, c.id)
		delete(v.attached, c.id)
	})
	return nil, refused
}

// categoryNamed is the ID of a category; the mutex is held.
func (v *VCenter) categoryNamed(name string) string {
	for id, one := range v.categories {
		if one.Name == name {
			return id
		}
	}
	return ""
}

// tagNamed is the ID of a tag in a category; the mutex is held.
func (v *VCenter) tagNamed(category, name string) (id string, found bool) {
	in := v.categoryNamed(category)
	for id, one := range v.tags {
		if one.Name == name && one.CategoryID == in {
			return id, true
		}
	}
	return "", false
}

func keys[T any](of map[string]T) []string {
	all := slices.Sorted(maps.Keys(of))
	if all == nil {
		all = []string{}
	}
	return all
}

// eligible tells whether tags of a category can be on objects of a type. The API takes types with and without "urn:vim25:".
func (c Category) eligible(kind string) bool {
	return len(c.Types) == 0 || slices.ContainsFunc(c.Types, func(one string) bool { return strings.TrimPrefix(one, "urn:vim25:") == kind })
}
