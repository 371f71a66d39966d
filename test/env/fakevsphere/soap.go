package fakevsphere

import (
	"slices"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// admit decides before each SOAP call whether it is carried out. The simulator calls it.
//
// Without a session a vCenter answers NotAuthenticated to everything but the service content and the login, also to reads of properties,
// which the simulator serves (govmomi session/manager.go relies on it). A user of a session is named `DOMAIN\user` there, whatever the form
// that it logged in with (vsphere-problem-detector pkg/check/permissions.go asks with that).
func (v *VCenter) admit(ctx *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	if ctx.Session != nil && ctx.Session.UserName == "" {
		// Start builds the inventory with calls within the process.
		return nil, nil
	}
	switch body := method.Body.(type) {
	case *types.Login:
		// Who has a session can't log in once more with it (vSphere API reference, SessionManager.Login).
		if ctx.Session != nil || !v.login(body.UserName, body.Password) {
			return nil, &types.InvalidLogin{}
		}
		name, domain, _ := strings.Cut(canonical(body.UserName), "@")
		body.UserName = strings.ToUpper(domain) + `\` + name
		return nil, nil
	case *types.RetrieveServiceContent:
		return nil, nil
	}
	if method.Name == "PbmRetrieveServiceContent" {
		return nil, nil
	}
	denied := types.NoPermission{Object: &method.This, PrivilegeId: "System.View"}
	if ctx.Session == nil {
		return nil, &types.NotAuthenticated{NoPermission: denied}
	}
	user := ctx.Session.UserName
	if privilege := policyPrivilege(method.Name); privilege != "" && !v.granted(user, v.root(), privilege) {
		root := v.root()
		return nil, &types.NoPermission{Object: &root, PrivilegeId: privilege}
	}
	for _, object := range subjects(method.Body) {
		if !v.granted(user, object, "System.View") {
			return nil, &types.NoPermission{Object: &object, PrivilegeId: "System.View"}
		}
	}
	if method.Name == "Logout" {
		v.set(func() { v.logins["logouts"]++ })
	}
	return nil, nil
}

// policyPrivilege is what a call of the policy service needs (SPBM API reference, "Required Privileges").
func policyPrivilege(method string) string {
	switch {
	case method == "PbmCreate" || method == "PbmDelete":
		return "StorageProfile.Update"
	case strings.HasPrefix(method, "Pbm"):
		return "StorageProfile.View"
	}
	return ""
}

// subjects are the objects that a read of properties names itself. Who may not see one of them gets a fault for all.
func subjects(body any) []types.ManagedObjectReference {
	var sets []types.PropertyFilterSpec
	switch request := body.(type) {
	case *types.RetrievePropertiesEx:
		sets = request.SpecSet
	case *types.RetrieveProperties:
		sets = request.SpecSet
	case *types.CreateFilter:
		sets = []types.PropertyFilterSpec{request.Spec}
	}
	var all []types.ManagedObjectReference
	for _, set := range sets {
		for _, object := range set.ObjectSet {
			all = append(all, object.Obj)
		}
	}
	return all
}

// login checks a user, and counts.
func (v *VCenter) login(user, password string) bool {
	good := v.valid(user, password)
	v.set(func() {
		if good {
			v.logins["logins"]++
		} else {
			v.logins["failed "+canonical(user)]++
		}
	})
	return good
}

// Deny takes privileges on an object from a user, who has all others: paths are such as "/dc1/datastore/ds1", "/" is the vCenter itself, and
// "TaskManager" has the tasks. Without System.View the user can't see the object, without System.Read the user can't read it. Nothing is
// inherited. A path where nothing is changes nothing.
func (v *VCenter) Deny(user, path string, privileges ...string) {
	v.set(func() {
		object, there := v.objects[path]
		who := canonical(user)
		if !there {
			return
		}
		if v.denied[who] == nil {
			v.denied[who] = map[types.ManagedObjectReference]map[string]bool{}
		}
		if v.denied[who][object] == nil {
			v.denied[who][object] = map[string]bool{}
		}
		for _, one := range privileges {
			v.denied[who][object][one] = true
		}
	})
}

// Allow gives a user all privileges again.
func (v *VCenter) Allow(user string) { v.set(func() { delete(v.denied, canonical(user)) }) }

func (v *VCenter) root() types.ManagedObjectReference {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.objects["/"]
}

// granted tells whether a user has a privilege on an object. A user that is not known has none.
func (v *VCenter) granted(user string, object types.ManagedObjectReference, privilege string) bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	who := canonical(user)
	_, known := v.users[who]
	return known && !v.denied[who][object][privilege]
}

// authorization answers by what Deny has taken, where the simulator grants everything to everybody.
type authorization struct {
	*simulator.AuthorizationManager
	vcenter *VCenter
	// all are the privileges that there are.
	all []string
}

// privileges are those of the simulator's list that concern storage or VMs. It has 482, and a poll would read all of them for each object.
func privileges(manager *simulator.AuthorizationManager) []string {
	admin := object.AuthorizationRoleList(manager.RoleList).ByName("Admin")
	return slices.DeleteFunc(slices.Clone(admin.Privilege), func(one string) bool {
		return !slices.ContainsFunc([]string{
			"Cns.", "Datastore.", "InventoryService.Tagging.", "Resource.", "Sessions.", "StorageProfile.", "System.", "VApp.Assign", "VApp.Import",
			"VirtualMachine.Config.", "VirtualMachine.Interact.", "VirtualMachine.Inventory.", "VirtualMachine.Provisioning.",
		}, func(begin string) bool { return strings.HasPrefix(one, begin) })
	})
}

func (a *authorization) held(user string, object types.ManagedObjectReference) []string {
	v, who, has := a.vcenter, canonical(user), []string{}
	v.set(func() {
		if _, known := v.users[who]; known {
			denied := v.denied[who][object]
			has = slices.DeleteFunc(slices.Clone(a.all), func(one string) bool { return denied[one] })
		}
	})
	return has
}

// FetchUserPrivilegeOnEntities lists what a user has.
func (a *authorization) FetchUserPrivilegeOnEntities(ctx *simulator.Context, r *types.FetchUserPrivilegeOnEntities) soap.HasFault {
	body := &methods.FetchUserPrivilegeOnEntitiesBody{}
	if body.Fault_ = missing(ctx, r.Entities); body.Fault_ != nil {
		return body
	}
	body.Res = &types.FetchUserPrivilegeOnEntitiesResponse{}
	for _, object := range r.Entities {
		body.Res.Returnval = append(body.Res.Returnval, types.UserPrivilegeResult{Entity: object, Privileges: a.held(r.UserName, object)})
	}
	return body
}

// HasUserPrivilegeOnEntities tells of single privileges.
func (a *authorization) HasUserPrivilegeOnEntities(ctx *simulator.Context, r *types.HasUserPrivilegeOnEntities) soap.HasFault {
	body := &methods.HasUserPrivilegeOnEntitiesBody{}
	if body.Fault_ = missing(ctx, r.Entities); body.Fault_ != nil {
		return body
	}
	body.Res = &types.HasUserPrivilegeOnEntitiesResponse{}
	for _, object := range r.Entities {
		answer := types.EntityPrivilege{Entity: object}
		held := a.held(r.UserName, object)
		for _, one := range r.PrivId {
			answer.PrivAvailability = append(answer.PrivAvailability, types.PrivilegeAvailability{PrivId: one, IsGranted: slices.Contains(held, one)})
		}
		body.Res.Returnval = append(body.Res.Returnval, answer)
	}
	return body
}

// HasPrivilegeOnEntities is refused: nothing asks by session, and the simulator would grant everything.
func (*authorization) HasPrivilegeOnEntities(*types.HasPrivilegeOnEntities) soap.HasFault {
	return &methods.HasPrivilegeOnEntitiesBody{Fault_: simulator.Fault("", &types.NotSupported{})}
}

// HasPrivilegeOnEntity is refused as well.
func (*authorization) HasPrivilegeOnEntity(*types.HasPrivilegeOnEntity) soap.HasFault {
	return &methods.HasPrivilegeOnEntityBody{Fault_: simulator.Fault("", &types.NotSupported{})}
}

// missing is the fault for the first object that is not there (vSphere API reference, AuthorizationManager).
func missing(ctx *simulator.Context, objects []types.ManagedObjectReference) *soap.Fault {
	for _, object := range objects {
		if ctx.Map.Get(object) == nil {
			return simulator.Fault("", &types.ManagedObjectNotFound{Obj: object})
		}
	}
	return nil
}
