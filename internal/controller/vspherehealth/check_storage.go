package vspherehealth

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// perDomain calls function "name" for each failure domain on whose vCenter the checks can rely. The function returns a text about each problem of the
// failure domain. perDomain returns one finding for each vCenter that has failure domains with problems.
func (in input) perDomain(
	severity severity, name func(configv1.VSpherePlatformFailureDomainSpec, vsphere.VCenter) []string, text string,
) []finding {
	names := map[string][]string{}
	in.each(func(domain configv1.VSpherePlatformFailureDomainSpec, vc vsphere.VCenter) {
		names[vc.Server] = append(names[vc.Server], name(domain, vc)...)
	})
	var found []finding
	for _, vc := range in.vCenters() {
		found = append(found, findingsAbout(vc.Server, severity, names[vc.Server], text)...)
	}
	return found
}

// checkDefaultDatastore finds failure domains whose datastore does not exist (vmware-vsphere-csi-driver-operator 030ff0e3,
// storageclasscontroller/vmware.go, GetDefaultDatastore; vsphere-problem-detector b2f09a5b, datastore.go, CheckDefaultDatastore).
func checkDefaultDatastore(in input) []finding {
	return in.perDomain(degrade, func(domain configv1.VSpherePlatformFailureDomainSpec, vc vsphere.VCenter) []string {
		if _, exists := datastoreOf(vc, domain.Topology); exists {
			return nil
		}
		return []string{fmt.Sprintf("%q of failure domain %s", domain.Topology.Datastore, domain.Name)}
	}, "datastores not found, or hidden from the user: %s. The driver can't create volumes there. Correct the failure domain, or the user's permissions")
}

// checkFailureDomains finds other missing objects that failure domains name. The checks of the detector fail if such an object is missing
// (vsphere-problem-detector b2f09a5b, permissions.go, folder.go and zones.go).
func checkFailureDomains(in input) []finding {
	return in.perDomain(warn, func(domain configv1.VSpherePlatformFailureDomainSpec, vc vsphere.VCenter) []string {
		topology := domain.Topology
		var missing []string
		add := func(absent bool, what, name string) {
			if absent && name != "" {
				missing = append(missing, fmt.Sprintf("%s %s of failure domain %s", what, name, domain.Name))
			}
		}
		// The poll returns a missing object with its name, but without a Ref.
		add(slices.ContainsFunc(vc.Datacenters, func(one vsphere.Datacenter) bool {
			return one.Name == topology.Datacenter && one.Ref == (vsphere.Ref{})
		}), "datacenter", topology.Datacenter)
		_, exists := clusterOf(vc, topology.ComputeCluster)
		add(!exists, "compute cluster", topology.ComputeCluster)
		add(slices.ContainsFunc(vc.Folders, func(one vsphere.Folder) bool {
			return one.Path == topology.Folder && one.Ref == (vsphere.Ref{})
		}), "folder", topology.Folder)
		add(slices.ContainsFunc(vc.Pools, func(one vsphere.ResourcePool) bool {
			return one.Path == topology.ResourcePool && one.Ref == (vsphere.Ref{})
		}), "resource pool", topology.ResourcePool)
		return missing
	}, "objects not found, or hidden from the user: %s. Correct the failure domain, or the user's permissions")
}

// checkDatastoreState finds datastores that are unavailable. Neither OpenShift's operator nor the detector has this check.
func checkDatastoreState(in input) []finding {
	var found []finding
	for _, vc := range in.vCenters() {
		var names []string
		for _, one := range vc.Datastores {
			switch {
			case !one.Accessible:
				names = append(names, one.Path+" (not accessible)")
			case one.Maintenance != "" && one.Maintenance != "normal":
				names = append(names, fmt.Sprintf("%s (%s)", one.Path, one.Maintenance))
			}
		}
		found = append(found, findingsAbout(vc.Server, warn, names, "datastores %s are unavailable: volumes there can't be created or mounted. End the "+
			"maintenance, or reconnect the datastores")...)
	}
	return found
}

// exists reports whether at least one vCenter has a matching datastore.
func (in input) exists(is func(vsphere.Datastore) bool) bool {
	return slices.ContainsFunc(in.vCenters(), func(vc vsphere.VCenter) bool { return slices.ContainsFunc(vc.Datastores, is) })
}

func named(name string) func(vsphere.Datastore) bool {
	return func(one vsphere.Datastore) bool { return one.Name == name || one.Path == name }
}

// checkClasses finds StorageClasses whose datastore or storage policy does not exist or is not unique (vsphere-problem-detector b2f09a5b,
// datastore.go, CheckStorageClasses).
func checkClasses(in input) []finding {
	if !in.canCheckAll() {
		return nil
	}
	var wrong []string
	for _, one := range in.cluster.classes {
		if one.url != "" && !in.exists(func(datastore vsphere.Datastore) bool { return datastore.URL == one.url }) {
			wrong = append(wrong, fmt.Sprintf("%s (datastoreurl %s)", one.name, one.url))
		}
		if one.datastore != "" && !in.exists(named(one.datastore)) {
			wrong = append(wrong, fmt.Sprintf("%s (datastore %s)", one.name, one.datastore))
		}
		// The driver skips vCenters without the policy (kubernetes-sigs/vsphere-csi-driver bf8090256, pkg/csi/service/vanilla/controller.go).
		var without []string
		for _, vc := range in.vCenters() {
			switch count := policies(vc, one.policy); {
			case count == 0:
				without = append(without, vc.Server)
			case count > 1:
				wrong = append(wrong, fmt.Sprintf("%s (%d storage policies %q in %s)", one.name, count, one.policy, vc.Server))
			}
		}
		slices.Sort(without)
		if len(without) == len(in.vCenters()) {
			wrong = append(wrong, fmt.Sprintf("%s (0 storage policies %q in %s)", one.name, one.policy, status.Shorten(without)))
		}
	}
	return findingsAbout("", warn, wrong, "StorageClasses name a datastore or storage policy that does not exist or is not unique: %s. "+
		"Provisioning fails for these classes. Correct vSphere, or replace the classes")
}

// policies counts the storage policies whose name or ID equals argument "name". It returns -1 if the argument is empty, or if the user has no right
// to see policies.
func policies(vc vsphere.VCenter, name string) int {
	hidden := slices.ContainsFunc(vc.Privileges, func(one vsphere.Privileges) bool {
		return one.Kind == vsphere.OnVCenter && slices.Contains(one.Missing, "StorageProfile.View")
	})
	if name == "" || hidden {
		return -1
	}
	count := 0
	for _, one := range vc.Policies {
		if one.Name == name || one.ID == name {
			count++
		}
	}
	return count
}

// checkVolumes finds PersistentVolumes of the in-tree plugin whose datastore does not exist. The driver needs the datastore to serve these
// PersistentVolumes. Earlier versions of the detector had this check (CheckPVs).
func checkVolumes(in input) []finding {
	if !in.canCheckAll() {
		return nil
	}
	var wrong []string
	for _, one := range in.cluster.volumes {
		// For a datastore in a datastore cluster, the name in the volume is "cluster/datastore".
		name := one.datastore[strings.LastIndexByte(one.datastore, '/')+1:]
		if name != "" && !in.exists(named(one.datastore)) && !in.exists(named(name)) {
			wrong = append(wrong, fmt.Sprintf("%s (%s)", one.name, one.datastore))
		}
	}
	return findingsAbout("", warn, wrong, "PersistentVolumes are on datastores that no vCenter has: %s. Pods can't mount them. Rename the datastores "+
		"back, or restore the volumes")
}
