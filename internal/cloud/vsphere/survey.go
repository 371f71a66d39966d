package vsphere

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// survey selects the objects of the cluster from an inventory. machines has the nodes' VMs, with the properties of machineProps.
type survey struct {
	inventory
	config  cloudconfig.VCenterConfig
	domains []configv1.VSpherePlatformFailureDomainSpec
	want    Want

	machines []object
}

// machineProps returns the properties that the poller reads of a node's VM. The property for changed block tracking (CBT) is from
// vsphere-problem-detector b2f09a5b, pkg/check/node_cbt.go.
func machineProps() []string {
	return []string{
		propName, propUUID, "config.version", "config.flags.diskUuidEnabled", propCBT, "summary.config.numVirtualDisks", "runtime.host", "resourcePool",
	}
}

// nodes returns the existing VMs of the nodes, in the order of their UUIDs.
func (s *survey) nodes() []Ref {
	var found []Ref
	for _, uuid := range s.want.UUIDs {
		if ref, known := s.inventory.machines[uuid]; known && !slices.Contains(found, ref) {
			found = append(found, ref)
		}
	}
	return found
}

// base returns the path of a datacenter's folder vm, host or datastore. These names are fixed.
func (s *survey) base(datacenter, folder string) string {
	if ref := s.find(datacenter, "", kindDatacenter); ref != (Ref{}) {
		return s.path(ref) + "/" + folder
	}
	return "/" + datacenter + "/" + folder
}

func (s *survey) datacenters() []Datacenter {
	names := slices.Clone(s.config.Datacenters)
	for _, domain := range s.domains {
		names = append(names, domain.Topology.Datacenter)
	}
	var found []Datacenter
	for _, name := range names {
		if name == "" || slices.ContainsFunc(found, func(one Datacenter) bool { return one.Name == name }) {
			continue
		}
		ref := s.find(name, "", kindDatacenter)
		found = append(found, Datacenter{Ref: ref, Path: s.path(ref), Name: name})
	}
	return found
}

func (s *survey) vms() []VM {
	found := make([]VM, 0, len(s.machines))
	for _, one := range s.machines {
		vm := VM{
			Ref: one.ref, Name: prop[string](one, propName), UUID: strings.ToLower(prop[string](one, propUUID)),
			Host: bare(prop[Ref](one, "runtime.host")), Pool: s.pool(bare(prop[Ref](one, "resourcePool"))),
			DiskUUID: prop[bool](one, "config.flags.diskUuidEnabled"), Disks: int(prop[int32](one, "summary.config.numVirtualDisks")),
		}
		vm.Hardware, _ = strconv.Atoi(strings.TrimPrefix(prop[string](one, "config.version"), "vmx-"))
		if cbt, is := prop[types.OptionValue](one, propCBT).Value.(string); is {
			vm.CBT = strings.EqualFold(cbt, "true")
		}
		found = append(found, vm)
	}
	slices.SortFunc(found, func(a, b VM) int { return cmp.Or(cmp.Compare(a.Name, b.Name), compareRefs(a.Ref, b.Ref)) })
	return found
}

// pool returns the resource pool of a VM. For a VM in a vApp, it returns the pool of the vApp.
func (s *survey) pool(ref Ref) Ref {
	for range 100 {
		if ref.Type != kindApp {
			break
		}
		ref = s.parent(ref)
	}
	return ref
}

// clusters returns the compute clusters that a failure domain names or that run one of the VMs. Their groups and rules are empty until addGroups sets
// them.
func (s *survey) clusters(vms []VM) []ComputeCluster {
	wanted := map[Ref]bool{}
	for _, domain := range s.domains {
		wanted[s.cluster(domain)] = true
	}
	for _, vm := range vms {
		wanted[s.parent(vm.Host)] = true
	}
	var found []ComputeCluster
	for _, ref := range s.sorted(kindCluster) {
		if !wanted[ref] {
			continue
		}
		one := ComputeCluster{Ref: ref, Path: s.path(ref), Datacenter: s.path(s.datacenter(ref)), Ancestors: s.ancestors(ref)}
		for _, host := range s.sorted(kindHost) {
			if s.parent(host) == ref {
				one.Datastores = append(one.Datastores, refs(s.objects[host], "datastore")...)
			}
		}
		slices.SortFunc(one.Datastores, compareRefs)
		one.Datastores = slices.Compact(one.Datastores)
		found = append(found, one)
	}
	return found
}

func (s *survey) cluster(domain configv1.VSpherePlatformFailureDomainSpec) Ref {
	return s.find(domain.Topology.ComputeCluster, s.base(domain.Topology.Datacenter, "host"), kindCluster)
}

// grouped returns the compute clusters in which a failure domain is a host group.
func (s *survey) grouped() []Ref {
	var found []Ref
	for _, domain := range s.domains {
		ref := s.cluster(domain)
		byHost := domain.ZoneAffinity != nil && domain.ZoneAffinity.Type == configv1.HostGroupFailureDomainZone
		if byHost && ref != (Ref{}) && !slices.Contains(found, ref) {
			found = append(found, ref)
		}
	}
	return found
}

// addGroups sets the host groups, VM groups and rules of compute clusters.
func addGroups(clusters []ComputeCluster, configurations []object) {
	for _, one := range configurations {
		at := slices.IndexFunc(clusters, func(cluster ComputeCluster) bool { return cluster.Ref == one.ref })
		if at < 0 {
			continue
		}
		cluster := &clusters[at]
		configuration := prop[types.ClusterConfigInfoEx](one, propGroups)
		cluster.HostGroups = map[string][]Ref{}
		for _, group := range configuration.Group {
			switch group := group.(type) {
			case *types.ClusterHostGroup:
				for _, host := range group.Host {
					cluster.HostGroups[group.Name] = append(cluster.HostGroups[group.Name], bare(host))
				}
				if len(group.Host) == 0 {
					cluster.HostGroups[group.Name] = nil
				}
				slices.SortFunc(cluster.HostGroups[group.Name], compareRefs)
			case *types.ClusterVmGroup:
				cluster.VMGroups = append(cluster.VMGroups, group.Name)
			}
		}
		for _, rule := range configuration.Rule {
			if rule, is := rule.(*types.ClusterVmHostRuleInfo); is {
				cluster.VMHostRules = append(cluster.VMHostRules, rule.Name)
			}
		}
		slices.Sort(cluster.VMGroups)
		slices.Sort(cluster.VMHostRules)
	}
}

func (s *survey) hosts(vms []VM, clusters []ComputeCluster) []Host {
	wanted := map[Ref]bool{}
	for _, vm := range vms {
		wanted[vm.Host] = true
	}
	for _, cluster := range clusters {
		wanted[cluster.Ref] = true
	}
	var found []Host
	for _, ref := range s.sorted(kindHost) {
		above := s.parent(ref)
		if !wanted[ref] && !wanted[above] {
			continue
		}
		one := s.objects[ref]
		product := prop[types.AboutInfo](one, "config.product")
		if product.Version == "" {
			// A disconnected host has no configuration, so take the product from the summary.
			product = prop[types.AboutInfo](one, "summary.config.product")
		}
		host := Host{
			Ref: ref, Name: s.name(ref), Version: product.Version, Build: product.Build, APIVersion: product.ApiVersion, Datastores: refs(one, "datastore"),
			Connected: prop[types.HostSystemConnectionState](one, "runtime.connectionState") == types.HostSystemConnectionStateConnected,
		}
		if above.Type == kindCluster {
			host.Cluster = above
		}
		found = append(found, host)
	}
	return found
}

func (s *survey) datastores() []Datastore {
	wanted := map[Ref]bool{}
	for _, domain := range s.domains {
		wanted[s.find(domain.Topology.Datastore, s.base(domain.Topology.Datacenter, "datastore"), kindDatastore)] = true
	}
	var found []Datastore
	for _, ref := range s.sorted(kindDatastore) {
		summary := prop[types.DatastoreSummary](s.objects[ref], "summary")
		one := Datastore{
			Ref: ref, Path: s.path(ref), Name: s.name(ref), URL: summary.Url, Type: summary.Type, Datacenter: s.path(s.datacenter(ref)),
			Accessible: summary.Accessible, Maintenance: summary.MaintenanceMode, Capacity: summary.Capacity, Free: summary.FreeSpace,
		}
		mentioned := func(name string) bool { return name != "" && (name == one.Name || name == one.URL || name == one.Path) }
		if wanted[ref] || slices.ContainsFunc(s.want.Datastores, mentioned) {
			found = append(found, one)
		}
	}
	return found
}

func (s *survey) folders() []Folder {
	var found []Folder
	for _, domain := range s.domains {
		name := domain.Topology.Folder
		if name == "" {
			continue
		}
		one := Folder{Ref: s.find(name, s.base(domain.Topology.Datacenter, "vm"), kindFolder), Path: name}
		if one.Ref != (Ref{}) {
			one.Path = s.path(one.Ref)
		}
		if !slices.Contains(found, one) {
			found = append(found, one)
		}
	}
	return found
}

func (s *survey) pools(vms []VM) []ResourcePool {
	var found []ResourcePool
	add := func(ref Ref, path string) {
		one := ResourcePool{Ref: ref, Path: path}
		if ref != (Ref{}) {
			one.Path = s.path(ref)
		}
		if one.Path != "" && !slices.Contains(found, one) {
			found = append(found, one)
		}
	}
	for _, domain := range s.domains {
		add(s.find(domain.Topology.ResourcePool, s.base(domain.Topology.Datacenter, "host"), kindPool), domain.Topology.ResourcePool)
	}
	for _, vm := range vms {
		add(vm.Pool, "")
	}
	slices.SortFunc(found, func(a, b ResourcePool) int { return cmp.Or(strings.Compare(a.Path, b.Path), compareRefs(a.Ref, b.Ref)) })
	return found
}
