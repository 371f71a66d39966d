package vsphere

import (
	"context"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	// inventoryPage and machinePage are page sizes. A vCenter can return smaller pages.
	inventoryPage, machinePage = 2500, 1000
	// maxPages limits the pages of a list. The largest vCenter has 45,000 VMs.
	maxPages = 200
)

// Object types that the poller reads.
const (
	kindFolder     = "Folder"
	kindDatacenter = "Datacenter"
	kindCluster    = "ClusterComputeResource"
	kindCompute    = "ComputeResource"
	kindHost       = "HostSystem"
	kindDatastore  = "Datastore"
	kindPool       = "ResourcePool"
	kindApp        = "VirtualApp"
	kindMachine    = "VirtualMachine"
)

// Property paths of vCenter objects. The code uses each of these paths more than once.
const (
	propName, propParent, propUUID = "name", "parent", "config.uuid"
	propGroups                     = "configurationEx"
	propCBT                        = `config.extraConfig["ctkEnabled"]`
)

// object is an object of a vCenter, with the properties that the user has the privilege to read.
type object struct {
	ref   Ref
	props map[string]any
}

// prop returns a property, or the zero value if it is absent or has another type.
func prop[T any](of object, name string) T {
	value, _ := of.props[name].(T)
	return value
}

// refs returns a property that is a list of references.
func refs(of object, name string) []Ref {
	list := slices.Clone(prop[types.ArrayOfManagedObjectReference](of, name).ManagedObjectReference)
	slices.SortFunc(list, compareRefs)
	return list
}

func compareRefs(a, b Ref) int {
	if a.Type != b.Type {
		return strings.Compare(a.Type, b.Type)
	}
	return strings.Compare(a.Value, b.Value)
}

// properties lists the properties that the poller reads from the objects in the view. For VMs, it lists only the UUID, which shows whether the VM is
// a node.
func properties() []types.PropertySpec {
	spec := func(kind string, paths ...string) types.PropertySpec {
		return types.PropertySpec{Type: kind, PathSet: paths}
	}
	return []types.PropertySpec{
		spec(kindDatacenter, propName, propParent), spec(kindFolder, propName, propParent), spec(kindPool, propName, propParent),
		spec(kindCompute, propName, propParent, "datastore"),
		spec(kindHost, propName, propParent, "datastore", "summary.config.product", "config.product", "runtime.connectionState"),
		spec(kindDatastore, propName, propParent, "summary"),
		spec(kindMachine, propUUID),
	}
}

// readAll reads all objects that the user can see. It reuses the session's view, which the vCenter keeps current.
func (c *client) readAll(ctx context.Context) ([]object, error) {
	const what = "read the inventory"
	content := c.session.vim.ServiceContent
	if c.session.view == (Ref{}) {
		answer, err := methods.CreateContainerView(ctx, c.session.vim, &types.CreateContainerView{
			This: *content.ViewManager, Container: content.RootFolder, Recursive: true,
			Type: []string{kindDatacenter, kindFolder, kindCompute, kindHost, kindDatastore, kindPool, kindMachine},
		})
		if err != nil {
			return nil, c.fail(what, err)
		}
		c.session.view = answer.Returnval
	}
	skip := true
	view := types.ObjectSpec{Obj: c.session.view, Skip: &skip, SelectSet: []types.BaseSelectionSpec{
		&types.TraversalSpec{Type: c.session.view.Type, Path: "view"},
	}}
	all, err := c.retrieve(ctx, what, inventoryPage, types.PropertyFilterSpec{PropSet: properties(), ObjectSet: []types.ObjectSpec{view}})
	if err != nil && failed("", "", err).Reason == Conflict {
		// The view ends with its session. So a missing view can be the first sign that the session has expired.
		failure := failed(c.config.Server, what, err)
		failure.Expired = true
		return nil, failure
	}
	return all, err
}

// readEach reads properties of objects of one type. It omits deleted objects.
func (c *client) readEach(ctx context.Context, what string, objects []Ref, paths ...string) ([]object, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	gone := true
	filter := types.PropertyFilterSpec{
		PropSet:                       []types.PropertySpec{{Type: objects[0].Type, PathSet: paths}},
		ReportMissingObjectsInResults: &gone,
	}
	for _, ref := range objects {
		filter.ObjectSet = append(filter.ObjectSet, types.ObjectSpec{Obj: ref})
	}
	return c.retrieve(ctx, what, machinePage, filter)
}

// retrieve reads all pages of the result of a query.
func (c *client) retrieve(ctx context.Context, what string, page int32, filter types.PropertyFilterSpec) ([]object, error) {
	collector := c.session.vim.ServiceContent.PropertyCollector
	answer, err := methods.RetrievePropertiesEx(ctx, c.session.vim, &types.RetrievePropertiesEx{
		This: collector, SpecSet: []types.PropertyFilterSpec{filter}, Options: types.RetrieveOptions{MaxObjects: page},
	})
	if err != nil {
		return nil, c.fail(what, err)
	}
	var all []object
	if answer.Returnval == nil {
		return nil, nil
	}
	result := *answer.Returnval
	for range maxPages {
		for _, content := range result.Objects {
			one, err := readObject(content)
			if err != nil {
				return nil, c.fail(what, err)
			}
			all = append(all, one)
		}
		if result.Token == "" {
			return all, nil
		}
		next, err := methods.ContinueRetrievePropertiesEx(ctx, c.session.vim, &types.ContinueRetrievePropertiesEx{This: collector, Token: result.Token})
		if err != nil {
			return nil, c.fail(what, err)
		}
		result = next.Returnval
	}
	return nil, c.fail(what, &Error{Reason: InvalidAnswer, Why: "the list has no end: " + adviceReach})
}

// readObject returns the readable properties. If the session has expired, the vCenter can return an error for each property, and readObject returns
// this error.
func readObject(content types.ObjectContent) (object, error) {
	one := object{ref: bare(content.Obj), props: make(map[string]any, len(content.PropSet))}
	for _, property := range content.PropSet {
		one.props[property.Name] = property.Val
	}
	for _, missing := range content.MissingSet {
		if _, ended := missing.Fault.Fault.(*types.NotAuthenticated); ended {
			failure := &Error{}
			faulted(failure, missing.Fault.Fault)
			return one, failure
		}
	}
	return one, nil
}

// bare returns a reference without the server's ID, because only some responses include this ID.
func bare(ref Ref) Ref { return Ref{Type: ref.Type, Value: ref.Value} }

// inventory is the tree of a vCenter's objects, in memory.
type inventory struct {
	objects map[Ref]object
	// machines maps UUIDs to VMs.
	machines map[string]Ref
}

func newInventory(all []object) inventory {
	tree := inventory{objects: make(map[Ref]object, len(all)), machines: map[string]Ref{}}
	for _, one := range all {
		if one.ref.Type != kindMachine {
			tree.objects[one.ref] = one
			continue
		}
		uuid := strings.ToLower(prop[string](one, propUUID))
		// A copied VM can have the same UUID as the original. Always choose the same VM.
		if before, found := tree.machines[uuid]; uuid != "" && (!found || compareRefs(one.ref, before) < 0) {
			tree.machines[uuid] = one.ref
		}
	}
	return tree
}

func (t inventory) parent(ref Ref) Ref { return bare(prop[Ref](t.objects[ref], propParent)) }

func (t inventory) name(ref Ref) string { return prop[string](t.objects[ref], propName) }

// ancestors returns the ancestors of an object, the nearest first, without the root folder.
func (t inventory) ancestors(ref Ref) []Ref {
	var found []Ref
	for ref = t.parent(ref); len(found) < 100; ref = t.parent(ref) {
		if _, known := t.objects[ref]; !known {
			break
		}
		found = append(found, ref)
	}
	return found
}

// path returns the inventory path of an object, such as /dc1/vm/folder.
func (t inventory) path(ref Ref) string {
	if t.name(ref) == "" {
		return ""
	}
	path := "/" + t.name(ref)
	for _, above := range t.ancestors(ref) {
		path = "/" + t.name(above) + path
	}
	return path
}

// datacenter returns the datacenter of an object. It returns zero if the object is in no datacenter.
func (t inventory) datacenter(ref Ref) Ref {
	for _, above := range t.ancestors(ref) {
		if above.Type == kindDatacenter {
			return above
		}
	}
	return Ref{}
}

// sorted returns all objects of some types, sorted by path.
func (t inventory) sorted(kinds ...string) []Ref {
	paths := map[Ref]string{}
	for ref := range t.objects {
		if slices.Contains(kinds, ref.Type) {
			paths[ref] = t.path(ref)
		}
	}
	found := make([]Ref, 0, len(paths))
	for ref := range paths {
		found = append(found, ref)
	}
	slices.SortFunc(found, func(a, b Ref) int {
		if paths[a] != paths[b] {
			return strings.Compare(paths[a], paths[b])
		}
		return compareRefs(a, b)
	})
	return found
}

// find resolves a path or a name from a configuration. A path is absolute, or relative to the path in argument "base". A name can also be the name of
// an object elsewhere in the datacenter of "base", if only one object has this name. find returns zero if it finds no object.
func (t inventory) find(name, base string, kinds ...string) Ref {
	if name == "" {
		return Ref{}
	}
	var named []Ref
	for _, ref := range t.sorted(kinds...) {
		path := t.path(ref)
		if path == name || path == base+"/"+name {
			return ref
		}
		above := t.datacenter(ref)
		if t.name(ref) == name && (above == Ref{} || strings.HasPrefix(base+"/", t.path(above)+"/")) {
			named = append(named, ref)
		}
	}
	if len(named) != 1 {
		return Ref{}
	}
	return named[0]
}
