package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// needed returns the required privileges on an object (openshift/vsphere-problem-detector b2f09a5b, pkg/check/permissions.go). It leaves out
// privileges on port groups, because storage does not need them.
func needed(kind PrivilegeKind) []string {
	switch kind {
	case OnVCenter:
		return []string{
			"Cns.Searchable", "InventoryService.Tagging.AttachTag", "InventoryService.Tagging.CreateCategory", "InventoryService.Tagging.CreateTag",
			"InventoryService.Tagging.DeleteCategory", "InventoryService.Tagging.DeleteTag", "InventoryService.Tagging.EditCategory",
			"InventoryService.Tagging.EditTag", "Sessions.ValidateSession", "StorageProfile.Update", "StorageProfile.View",
		}
	case OnDatacenter:
		return []string{"System.Read"}
	case OnCluster, OnResourcePool:
		return []string{"Resource.AssignVMToPool", "VApp.AssignResourcePool", "VApp.Import", "VirtualMachine.Config.AddNewDisk"}
	case OnDatastore:
		return []string{"Datastore.AllocateSpace", "Datastore.Browse", "Datastore.FileManagement", "InventoryService.Tagging.ObjectAttachable"}
	case OnFolder:
		return []string{
			"Resource.AssignVMToPool", "VApp.Import", "VirtualMachine.Config.AddExistingDisk", "VirtualMachine.Config.AddNewDisk",
			"VirtualMachine.Config.AddRemoveDevice", "VirtualMachine.Config.AdvancedConfig", "VirtualMachine.Config.Annotation",
			"VirtualMachine.Config.CPUCount", "VirtualMachine.Config.DiskExtend", "VirtualMachine.Config.DiskLease",
			"VirtualMachine.Config.EditDevice", "VirtualMachine.Config.Memory", "VirtualMachine.Config.RemoveDisk",
			"VirtualMachine.Config.Rename", "VirtualMachine.Config.ResetGuestInfo", "VirtualMachine.Config.Resource",
			"VirtualMachine.Config.Settings", "VirtualMachine.Config.UpgradeVirtualHardware", "VirtualMachine.Interact.GuestControl",
			"VirtualMachine.Interact.PowerOff", "VirtualMachine.Interact.PowerOn", "VirtualMachine.Interact.Reset",
			"VirtualMachine.Inventory.Create", "VirtualMachine.Inventory.CreateFromExisting", "VirtualMachine.Inventory.Delete",
			"VirtualMachine.Provisioning.Clone", "VirtualMachine.Provisioning.DeployTemplate", "VirtualMachine.Provisioning.MarkAsTemplate",
		}
	default:
		return nil
	}
}

// isPrivilege reports whether a text names one of the required privileges.
func isPrivilege(name string) bool {
	for _, kind := range []PrivilegeKind{OnVCenter, OnDatacenter, OnCluster, OnFolder, OnDatastore} {
		if slices.Contains(needed(kind), name) {
			return true
		}
	}
	return name == "System.View"
}

// places returns the objects on which the poller checks privileges. These are the root folder, for the vCenter itself, and all objects that the poll
// found.
func places(root Ref, seen VCenter) []Privileges {
	found := []Privileges{{Kind: OnVCenter, Ref: bare(root), Path: "/"}}
	add := func(kind PrivilegeKind, ref Ref, path string) {
		one := Privileges{Kind: kind, Ref: ref, Path: path}
		again := func(other Privileges) bool { return other.Kind == kind && other.Ref == ref }
		if ref != (Ref{}) && !slices.ContainsFunc(found, again) {
			found = append(found, one)
		}
	}
	for _, one := range seen.Datacenters {
		add(OnDatacenter, one.Ref, one.Path)
	}
	for _, one := range seen.Clusters {
		add(OnCluster, one.Ref, one.Path)
	}
	for _, one := range seen.Folders {
		add(OnFolder, one.Ref, one.Path)
	}
	for _, one := range seen.Datastores {
		add(OnDatastore, one.Ref, one.Path)
	}
	for _, one := range seen.Pools {
		add(OnResourcePool, one.Ref, one.Path)
	}
	return found
}

// compare sets the missing privileges.
func compare(asked []Privileges, granted []types.UserPrivilegeResult) {
	has := map[Ref]map[string]bool{}
	for _, result := range granted {
		ref := bare(result.Entity)
		if has[ref] == nil {
			has[ref] = map[string]bool{}
		}
		for _, privilege := range result.Privileges {
			has[ref][privilege] = true
		}
	}
	for i := range asked {
		one := &asked[i]
		for _, privilege := range needed(one.Kind) {
			if !has[one.Ref][privilege] {
				one.Missing = append(one.Missing, privilege)
			}
		}
		slices.Sort(one.Missing)
	}
}

// readPrivileges finds the privileges that the user lacks on these objects, with one request for all objects.
func (c *client) readPrivileges(ctx context.Context, seen VCenter) ([]Privileges, error) {
	content := c.session.vim.ServiceContent
	asked := places(content.RootFolder, seen)
	request := &types.FetchUserPrivilegeOnEntities{This: *content.AuthorizationManager, UserName: c.session.user}
	for _, one := range asked {
		if !slices.Contains(request.Entities, one.Ref) {
			request.Entities = append(request.Entities, one.Ref)
		}
	}
	answer, err := methods.FetchUserPrivilegeOnEntities(ctx, c.session.vim, request)
	if err != nil {
		return nil, c.fail("read the privileges of the user", err)
	}
	compare(asked, answer.Returnval)
	return asked, nil
}

// canReadTasks reports whether the user can read the recent tasks. If the user lacks the privilege, the vCenter omits the property, or returns a
// fault.
func (c *client) canReadTasks(ctx context.Context) (bool, error) {
	manager := *c.session.vim.ServiceContent.TaskManager
	found, err := c.readEach(ctx, "read the recent tasks", []Ref{manager}, "recentTask")
	if err != nil && ReasonOf(err) == NotAuthorized {
		return false, nil
	}
	if err != nil || len(found) == 0 {
		return false, err
	}
	_, readable := found[0].props["recentTask"]
	return readable, nil
}
