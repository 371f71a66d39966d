package fakevsphere

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// machine returns the current VM at a path.
func (v *VCenter) machine(path string) (*simulator.VirtualMachine, bool) {
	vm, found := v.registry.Get(v.Ref(path)).(*simulator.VirtualMachine)
	return vm, found
}

// AddVM adds one to the cluster at a path, and returns its own.
func (v *VCenter) AddVM(cluster string, vm VM) (path string) {
	v.placing.Lock()
	defer v.placing.Unlock()
	datacenter, _, _ := strings.Cut(cluster, "/host/")
	in := datacenter + "/vm"
	if vm.Folder != "" {
		in += "/" + vm.Folder
	}
	path = in + "/" + vm.Name
	made := &simulator.VirtualMachine{}
	v.registry.NewEntity(made)
	ref, folder := made.Self, v.Ref(in)
	made.Parent = &folder
	v.place(path, ref)
	v.set(func() { v.vms[path] = place{cluster: cluster} })
	v.configure(&made.VirtualMachine, path, vm)
	v.registry.Put(made)
	swap(v, folder, func(f *simulator.Folder) { f.ChildEntity = with(f.ChildEntity, ref) })
	v.enlist(made, with)
	return path
}

// SetVM changes the VM at a path: all but its name and its folder. UUID, host and pool stay where they are empty.
func (v *VCenter) SetVM(path string, vm VM) {
	v.placing.Lock()
	defer v.placing.Unlock()
	old, found := v.machine(path)
	if !found {
		return
	}
	vm.Name = old.Name
	swap(v, old.Self, func(m *simulator.VirtualMachine) { v.configure(&m.VirtualMachine, path, vm) })
	changed, _ := v.machine(path)
	v.enlist(old, without)
	v.enlist(changed, with)
}

// enlist changes the lists of VMs that the host and the pool of one have.
func (v *VCenter) enlist(
	vm *simulator.VirtualMachine, change func([]types.ManagedObjectReference, types.ManagedObjectReference) []types.ManagedObjectReference,
) {
	swap(v, *vm.Runtime.Host, func(h *simulator.HostSystem) { h.Vm = change(h.Vm, vm.Self) })
	swap(v, *vm.ResourcePool, func(p *simulator.ResourcePool) { p.Vm = change(p.Vm, vm.Self) })
}

// RemoveVM removes the VM at a path.
func (v *VCenter) RemoveVM(path string) {
	v.placing.Lock()
	defer v.placing.Unlock()
	vm, found := v.machine(path)
	if !found {
		return
	}
	swap(v, *vm.Parent, func(f *simulator.Folder) { f.ChildEntity = without(f.ChildEntity, vm.Self) })
	v.enlist(vm, without)
	v.registry.Remove(&simulator.Context{Map: v.registry}, vm.Self)
	v.displace(path)
}

// hostOf is the host of a VM: by name, or the first of the cluster.
func (v *VCenter) hostOf(cluster, name string) types.ManagedObjectReference {
	if name == "" {
		name = v.first("HostSystem", cluster+"/")
	}
	return v.Ref(cluster + "/" + name)
}

// configure makes a VM what it is to be. disk.enableUUID is in the flags and in the advanced settings, ctkEnabled too, as a vCenter has them
// (vsphere-problem-detector pkg/check/node_uuid.go reads the one, node_cbt.go the other).
func (v *VCenter) configure(made *mo.VirtualMachine, path string, vm VM) {
	var at place
	v.set(func() { at = v.vms[path] })
	host, pool := v.hostOf(at.cluster, vm.Host), v.Ref(strings.TrimSuffix(at.cluster+"/Resources/"+vm.Pool, "/"))
	uuid, version := cmp.Or(vm.UUID, v.uuid(path)), fmt.Sprintf("vmx-%02d", cmp.Or(vm.Hardware, 19))
	if made.Config != nil {
		uuid = cmp.Or(vm.UUID, made.Config.Uuid)
		if vm.Host == "" {
			host = *made.Runtime.Host
		}
		if vm.Pool == "" {
			pool = *made.ResourcePool
		}
	}
	settings := map[string]string{"disk.enableUUID": "TRUE"}
	if vm.DiskUUIDOff {
		settings["disk.enableUUID"] = "FALSE"
	}
	if vm.CBT {
		settings["ctkEnabled"] = "TRUE"
	}
	maps.Copy(settings, vm.ExtraConfig)
	config := &types.VirtualMachineConfigInfo{
		Name: vm.Name, Uuid: uuid, InstanceUuid: v.uuid("instance" + path), Version: version, GuestId: "rhel9_64Guest", GuestFullName: "Red Hat CoreOS",
		Files: types.VirtualMachineFileInfo{VmPathName: "[ds1] " + vm.Name + "/" + vm.Name + ".vmx"}, ChangeTrackingEnabled: types.NewBool(vm.CBT),
		Flags:    types.VirtualMachineFlagInfo{DiskUuidEnabled: types.NewBool(!vm.DiskUUIDOff)},
		Hardware: types.VirtualHardware{NumCPU: 4, MemoryMB: 16384, Device: disks(vm)},
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		config.ExtraConfig = append(config.ExtraConfig, &types.OptionValue{Key: key, Value: settings[key]})
	}
	self := made.Self
	made.Name, made.Config, made.ResourcePool = vm.Name, config, &pool
	made.Runtime = types.VirtualMachineRuntimeInfo{
		Host: &host, PowerState: types.VirtualMachinePowerStatePoweredOn, ConnectionState: types.VirtualMachineConnectionStateConnected,
	}
	made.Guest = &types.GuestInfo{HostName: vm.Name, ToolsRunningStatus: "guestToolsRunning", GuestState: "running"}
	made.Summary = types.VirtualMachineSummary{Vm: &self, Runtime: made.Runtime, Config: types.VirtualMachineConfigSummary{
		Name: vm.Name, Uuid: uuid, InstanceUuid: config.InstanceUuid, HwVersion: version, GuestId: config.GuestId, VmPathName: config.Files.VmPathName,
		NumCpu: config.Hardware.NumCPU, MemorySizeMB: config.Hardware.MemoryMB, NumVirtualDisks: int32(vm.Disks),
	}}
}

// disks are the controller and the disks of a VM.
func disks(vm VM) []types.BaseVirtualDevice {
	const controller = 1000
	all := []types.BaseVirtualDevice{&types.ParaVirtualSCSIController{VirtualSCSIController: types.VirtualSCSIController{
		VirtualController: types.VirtualController{VirtualDevice: types.VirtualDevice{Key: controller}}, SharedBus: types.VirtualSCSISharingNoSharing,
	}}}
	for i := range int32(vm.Disks) {
		all = append(all, &types.VirtualDisk{CapacityInBytes: 120 << 30, CapacityInKB: 120 << 20, VirtualDevice: types.VirtualDevice{
			Key: 2000 + i, ControllerKey: controller, UnitNumber: types.NewInt32(i), Backing: &types.VirtualDiskFlatVer2BackingInfo{
				DiskMode:                     string(types.VirtualDiskModePersistent),
				VirtualDeviceFileBackingInfo: types.VirtualDeviceFileBackingInfo{FileName: fmt.Sprintf("[ds1] %s/disk%d.vmdk", vm.Name, i)},
			},
		}})
	}
	return all
}
