package fakevsphere

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// populate makes the inventory. Datastores and VMs have no files, unlike the simulator's: nothing that runs here opens one.
func (v *VCenter) populate(ctx *simulator.Context, datacenters []Datacenter) error {
	client, err := vim25.NewClient(ctx, v.service)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	for _, dc := range datacenters {
		parent, at, err := v.folder(ctx, object.NewRootFolder(client), "", dc.Folder)
		if err != nil {
			return fmt.Errorf("folder of datacenter %s: %w", dc.Name, err)
		}
		made, err := parent.CreateDatacenter(ctx, dc.Name)
		if err != nil {
			return fmt.Errorf("datacenter %s: %w", dc.Name, err)
		}
		at += "/" + dc.Name
		v.place(at, made.Reference())
		folders, err := made.Folders(ctx)
		if err != nil {
			return fmt.Errorf("datacenter %s: %w", dc.Name, err)
		}
		v.place(at+"/vm", folders.VmFolder.Reference())
		v.place(at+"/host", folders.HostFolder.Reference())
		v.place(at+"/datastore", folders.DatastoreFolder.Reference())
		for _, name := range dc.Folders {
			if _, _, err := v.folder(ctx, folders.VmFolder, at+"/vm", name); err != nil {
				return fmt.Errorf("folder %s: %w", name, err)
			}
		}
		for _, cluster := range dc.Clusters {
			parent, in, err := v.folder(ctx, folders.HostFolder, at+"/host", cluster.Folder)
			if err != nil {
				return fmt.Errorf("folder of cluster %s: %w", cluster.Name, err)
			}
			if err := v.addCluster(ctx, parent, in, cluster); err != nil {
				return fmt.Errorf("cluster %s: %w", cluster.Name, err)
			}
		}
		for _, datastore := range dc.Datastores {
			v.AddDatastore(at, datastore)
		}
		for _, cluster := range dc.Clusters {
			for _, vm := range cluster.VMs {
				v.AddVM(at+strings.TrimSuffix("/host/"+cluster.Folder, "/")+"/"+cluster.Name, vm)
			}
		}
	}
	return nil
}

// folder is one in another, made if there is none; the other itself if the name is empty. It returns the path too.
func (v *VCenter) folder(ctx *simulator.Context, in *object.Folder, at, name string) (*object.Folder, string, error) {
	if name == "" {
		return in, at, nil
	}
	at += "/" + name
	if there := v.Ref(at); there.Value != "" {
		return object.NewFolder(in.Client(), there), at, nil
	}
	made, err := in.CreateFolder(ctx, name)
	if err != nil {
		return nil, "", fmt.Errorf("create: %w", err)
	}
	v.place(at, made.Reference())
	return made, at, nil
}

func (v *VCenter) addCluster(ctx *simulator.Context, folder *object.Folder, in string, cluster Cluster) error {
	made, err := folder.CreateCluster(ctx, cluster.Name, types.ClusterConfigSpecEx{})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	at := in + "/" + cluster.Name
	v.place(at, made.Reference())
	pool, err := made.ResourcePool(ctx)
	if err != nil {
		return fmt.Errorf("resource pool: %w", err)
	}
	v.place(at+"/Resources", pool.Reference())
	for _, name := range cluster.Pools {
		child, err := pool.Create(ctx, name, types.DefaultResourceConfigSpec())
		if err != nil {
			return fmt.Errorf("resource pool %s: %w", name, err)
		}
		v.place(at+"/Resources/"+name, child.Reference())
	}
	for _, host := range cluster.Hosts {
		v.addHost(at, host)
	}
	return nil
}

// addHost adds one to the cluster at a path. The simulator's own function would copy the thousand settings of a host, which no test reads.
func (v *VCenter) addHost(cluster string, host Host) {
	made, in, path := &simulator.HostSystem{}, v.Ref(cluster), cluster+"/"+host.Name
	v.registry.NewEntity(made)
	ref := made.Self
	made.Name, made.Parent, made.Summary.Host, made.Summary.Config.Name = host.Name, &in, &ref, host.Name
	made.Config = &types.HostConfigInfo{Host: ref}
	v.registry.Put(made)
	v.place(path, ref)
	swap(v, in, func(c *simulator.ClusterComputeResource) { c.Host = with(c.Host, ref) })
	v.SetHost(path, host)
}

// swap replaces an object by a changed copy, so that concurrent readers see no partial change. Slices and pointers in it must be replaced too.
func swap[T any, P interface {
	*T
	mo.Reference
}](v *VCenter, ref types.ManagedObjectReference, change func(P)) bool {
	old, ok := v.registry.Get(ref).(P)
	if !ok {
		return false
	}
	changed := *old
	change(&changed)
	v.registry.Put(P(&changed))
	return true
}

// with is a list and one more.
func with(list []types.ManagedObjectReference, one types.ManagedObjectReference) []types.ManagedObjectReference {
	return append(slices.Clone(list), one)
}

// without is a list and one less.
func without(list []types.ManagedObjectReference, one types.ManagedObjectReference) []types.ManagedObjectReference {
	return slices.DeleteFunc(slices.Clone(list), func(other types.ManagedObjectReference) bool { return other == one })
}

// SetVersion changes version, build and API version of the vCenter itself.
func (v *VCenter) SetVersion(version, build, api string) {
	v.placing.Lock()
	defer v.placing.Unlock()
	swap(v, vim25.ServiceInstance, func(s *simulator.ServiceInstance) {
		about := &s.Content.About
		about.Version, about.Build, about.ApiVersion, about.LicenseProductVersion = version, build, api, version
		about.FullName = fmt.Sprintf("%s %s build-%s", about.Name, version, build)
	})
}

// SetHost changes the host at a path. Its name stays.
func (v *VCenter) SetHost(path string, host Host) {
	v.placing.Lock()
	defer v.placing.Unlock()
	version, build, api := cmp.Or(host.Version, "8.0.2"), cmp.Or(host.Build, "22380479"), cmp.Or(host.APIVersion, "8.0.2.0")
	swap(v, v.Ref(path), func(h *simulator.HostSystem) {
		product := types.AboutInfo{
			Name: "VMware ESXi", FullName: fmt.Sprintf("VMware ESXi %s build-%s", version, build), Vendor: "VMware, Inc.", Version: version, Build: build,
			ApiVersion: api, OsType: "vmnix-x86", ProductLineId: "embeddedEsx", ApiType: "HostAgent", LicenseProductVersion: version,
		}
		config := *h.Config
		config.Product = product
		h.Config = &config
		h.Summary.Config.Product = &product
		h.Runtime.ConnectionState = types.HostSystemConnectionStateConnected
		if host.Disconnected {
			h.Runtime.ConnectionState = types.HostSystemConnectionStateNotResponding
		}
		runtime := h.Runtime
		h.Summary.Runtime = &runtime
	})
}

// AddDatastore adds one to the datacenter at a path.
func (v *VCenter) AddDatastore(datacenter string, datastore Datastore) {
	v.placing.Lock()
	defer v.placing.Unlock()
	made := &simulator.Datastore{}
	v.registry.NewEntity(made)
	ref, folder := made.Self, v.Ref(datacenter+"/datastore")
	made.Parent = &folder
	v.place(datacenter+"/datastore/"+datastore.Name, ref)
	v.describe(&made.Datastore, datacenter, datastore)
	for _, cluster := range v.Paths("ClusterComputeResource") {
		at, name, _ := strings.Cut(cluster, "/host/")
		if at != datacenter || len(datastore.Clusters) > 0 && !slices.Contains(datastore.Clusters, name[strings.LastIndex(name, "/")+1:]) {
			continue
		}
		swap(v, v.Ref(cluster), func(c *simulator.ClusterComputeResource) {
			c.Datastore = with(c.Datastore, ref)
			for _, host := range c.Host {
				made.Host = append(made.Host, types.DatastoreHostMount{Key: host, MountInfo: types.HostMountInfo{
					AccessMode: string(types.HostMountModeReadWrite), Mounted: types.NewBool(true), Accessible: types.NewBool(true),
				}})
				swap(v, host, func(h *simulator.HostSystem) { h.Datastore = with(h.Datastore, ref) })
			}
		})
	}
	v.registry.Put(made)
	swap(v, v.Ref(datacenter), func(d *simulator.Datacenter) { d.Datastore = with(d.Datastore, ref) })
	swap(v, folder, func(f *simulator.Folder) { f.ChildEntity = with(f.ChildEntity, ref) })
}

// SetDatastore changes the datastore at a path. Name and mounts stay.
func (v *VCenter) SetDatastore(path string, datastore Datastore) {
	v.placing.Lock()
	defer v.placing.Unlock()
	datacenter, name, _ := strings.Cut(path, "/datastore/")
	datastore.Name = name
	swap(v, v.Ref(path), func(d *simulator.Datastore) { v.describe(&d.Datastore, datacenter, datastore) })
}

func (v *VCenter) describe(made *mo.Datastore, datacenter string, datastore Datastore) {
	id := strings.ReplaceAll(v.uuid(datacenter+"/datastore/"+datastore.Name), "-", "")
	url := cmp.Or(datastore.URL, "ds:///vmfs/volumes/"+id[:8]+"-"+id[8:16]+"-"+id[16:20]+"-"+id[20:]+"/")
	kind, capacity := cmp.Or(datastore.Type, "VMFS"), cmp.Or(datastore.Capacity, 1<<40)
	free, self := cmp.Or(datastore.Free, capacity/2), made.Self
	made.Name = datastore.Name
	made.Info = &types.DatastoreInfo{Name: datastore.Name, Url: url, FreeSpace: free}
	if kind == "VMFS" {
		made.Info = &types.VmfsDatastoreInfo{DatastoreInfo: *made.Info.GetDatastoreInfo(), Vmfs: &types.HostVmfsVolume{
			HostFileSystemVolume: types.HostFileSystemVolume{Type: kind, Name: datastore.Name, Capacity: capacity}, Uuid: id, MajorVersion: 6, Version: "6.82",
		}}
	}
	made.Summary = types.DatastoreSummary{
		Datastore: &self, Name: datastore.Name, Url: url, Type: kind, Capacity: capacity, FreeSpace: free, Accessible: !datastore.Inaccessible,
		MaintenanceMode: cmp.Or(datastore.Maintenance, "normal"), MultipleHostAccess: types.NewBool(true),
	}
}

// SetGroups replaces groups and rules of the cluster at a path. Hosts and VMs are names.
func (v *VCenter) SetGroups(cluster string, groups Groups) {
	v.placing.Lock()
	defer v.placing.Unlock()
	config := &types.ClusterConfigInfoEx{}
	for _, name := range slices.Sorted(maps.Keys(groups.Hosts)) {
		group := &types.ClusterHostGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: name}}
		for _, host := range groups.Hosts[name] {
			group.Host = append(group.Host, v.Ref(cluster+"/"+host))
		}
		config.Group = append(config.Group, group)
	}
	for _, name := range slices.Sorted(maps.Keys(groups.VMs)) {
		group := &types.ClusterVmGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: name}}
		for _, path := range v.Paths("VirtualMachine") {
			if slices.Contains(groups.VMs[name], path[strings.LastIndex(path, "/")+1:]) {
				group.Vm = append(group.Vm, v.Ref(path))
			}
		}
		config.Group = append(config.Group, group)
	}
	for i, rule := range groups.Rules {
		config.Rule = append(config.Rule, &types.ClusterVmHostRuleInfo{
			ClusterRuleInfo: types.ClusterRuleInfo{Key: int32(i + 1), Name: rule.Name, Enabled: types.NewBool(true)},
			VmGroupName:     rule.VMs, AffineHostGroupName: rule.Hosts,
		})
	}
	swap(v, v.Ref(cluster), func(c *simulator.ClusterComputeResource) { c.ConfigurationEx = config })
}
