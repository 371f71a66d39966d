package vsphere

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/types"
)

func TestPrivilegesAreAskedForOnWhatWasFoundOnce(t *testing.T) {
	seen := VCenter{
		Datacenters: []Datacenter{{Ref: ref(kindDatacenter, "dc"), Path: "/dc"}, {Name: "missing"}},
		Clusters:    []ComputeCluster{{Ref: ref(kindCluster, "c1"), Path: "/dc/host/c1"}},
		Folders:     []Folder{{Ref: ref(kindFolder, "f"), Path: "/dc/vm/f"}, {Ref: ref(kindFolder, "f"), Path: "/dc/vm/f"}, {Path: "/dc/vm/missing"}},
		Datastores:  []Datastore{{Ref: ref(kindDatastore, "ds1"), Path: "/dc/datastore/ds1"}},
		Pools:       []ResourcePool{{Ref: ref(kindPool, "p"), Path: "/dc/host/c1/Resources/p"}},
	}
	root := Ref{Type: kindFolder, Value: "root", ServerGUID: "guid"}
	want := []Privileges{
		{Kind: OnVCenter, Ref: ref(kindFolder, "root"), Path: "/"}, {Kind: OnDatacenter, Ref: ref(kindDatacenter, "dc"), Path: "/dc"},
		{Kind: OnCluster, Ref: ref(kindCluster, "c1"), Path: "/dc/host/c1"}, {Kind: OnFolder, Ref: ref(kindFolder, "f"), Path: "/dc/vm/f"},
		{Kind: OnDatastore, Ref: ref(kindDatastore, "ds1"), Path: "/dc/datastore/ds1"},
		{Kind: OnResourcePool, Ref: ref(kindPool, "p"), Path: "/dc/host/c1/Resources/p"},
	}
	if diff := cmp.Diff(want, places(root, seen)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWhatIsMissingIsWhatWasNotGrantedOnThatObject(t *testing.T) {
	ds := ref(kindDatastore, "ds1")
	granted := func(names ...string) types.UserPrivilegeResult {
		return types.UserPrivilegeResult{Entity: Ref{Type: ds.Type, Value: ds.Value, ServerGUID: "guid"}, Privileges: names}
	}
	elsewhere := types.UserPrivilegeResult{Entity: ref(kindDatastore, "ds2"), Privileges: needed(OnDatastore)}
	for name, tc := range map[string]struct {
		granted []types.UserPrivilegeResult
		want    []string
	}{
		"no answer":         {nil, needed(OnDatastore)},
		"on another object": {[]types.UserPrivilegeResult{elsewhere}, needed(OnDatastore)},
		"all":               {[]types.UserPrivilegeResult{granted(needed(OnDatastore)...)}, nil},
		"all and more":      {[]types.UserPrivilegeResult{granted(append(needed(OnDatastore), "System.View")...)}, nil},
		"all but two": {
			[]types.UserPrivilegeResult{granted("Datastore.AllocateSpace", "Datastore.FileManagement")},
			[]string{"Datastore.Browse", "InventoryService.Tagging.ObjectAttachable"},
		},
		"in two answers": {
			[]types.UserPrivilegeResult{granted("Datastore.AllocateSpace", "Datastore.Browse"), granted("Datastore.FileManagement")},
			[]string{"InventoryService.Tagging.ObjectAttachable"},
		},
	} {
		asked := []Privileges{{Kind: OnDatastore, Ref: ds}}
		compare(asked, tc.granted)
		if diff := cmp.Diff(tc.want, asked[0].Missing); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// An object can have two kinds, each with its own privileges.
func TestTheSameObjectNeedsOtherPrivilegesForAnotherReason(t *testing.T) {
	asked := []Privileges{{Kind: OnVCenter, Ref: ref(kindFolder, "x")}, {Kind: OnFolder, Ref: ref(kindFolder, "x")}, {Kind: "unknown"}}
	compare(asked, []types.UserPrivilegeResult{{Entity: ref(kindFolder, "x"), Privileges: needed(OnVCenter)}})
	if len(asked[0].Missing) > 0 || !slices.Contains(asked[1].Missing, "VApp.Import") || len(asked[2].Missing) > 0 {
		t.Errorf("%+v", asked)
	}
}

// Only known names of privileges from a vCenter appear in messages.
func TestOnlyKnownPrivilegesAreNamed(t *testing.T) {
	for name, want := range map[string]bool{
		"StorageProfile.View": true, "Datastore.Browse": true, "System.Read": true, "System.View": true, "VApp.Import": true,
		"": false, "System": false, "Datastore.browse": false, "s3cret-p4ss": false, "Datastore.Browse\n": false,
	} {
		if isPrivilege(name) != want {
			t.Errorf("%q: want %t", name, want)
		}
	}
}
