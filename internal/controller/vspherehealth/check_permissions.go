package vspherehealth

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// mostPrivileges is how many missing privileges of one object are named.
const mostPrivileges = 12

// lacking makes a finding for each vCenter where the user lacks privileges on objects that matter.
func (in input) lacking(matters func(vsphere.VCenter, vsphere.Privileges) bool) []finding {
	var found []finding
	for _, vc := range in.vCenters() {
		var names []string
		for _, one := range vc.Privileges {
			if len(one.Missing) > 0 && matters(vc, one) {
				names = append(names, fmt.Sprintf("on %s %s (%s)", one.Kind, one.Path, status.ShortenTo(one.Missing, mostPrivileges)))
			}
		}
		found = append(found, some(vc.Server, warn, names, "user %[2]s lacks privileges %[1]s. Add them to the role of the user", vc.User)...)
	}
	return found
}

// checkAccountPermissions finds privileges that the user lacks on vCenters, datacenters, folders and datastores (detector: permissions.go,
// datastore.go, and folder.go, which lists a datastore instead of asking for Datastore.Browse).
func checkAccountPermissions(in input) []finding {
	return in.lacking(func(_ vsphere.VCenter, one vsphere.Privileges) bool {
		return slices.Contains([]vsphere.PrivilegeKind{vsphere.OnVCenter, vsphere.OnDatacenter, vsphere.OnFolder, vsphere.OnDatastore}, one.Kind)
	})
}

// checkClusterPermissions finds privileges that the user lacks on compute clusters. Where all nodes are in a resource pool that somebody made, it
// needs them there instead (detector: node_cluster_permissions.go).
func checkClusterPermissions(in input) []finding {
	return in.lacking(func(vc vsphere.VCenter, one vsphere.Privileges) bool {
		if one.Kind != vsphere.OnCluster {
			return false
		}
		pooled, found := true, false
		for _, domain := range in.domains() {
			if strings.EqualFold(domain.Server, vc.Server) && (domain.Topology.ComputeCluster == one.Path || len(in.domains()) == 1) {
				pooled, found = pooled && isOwnPool(domain.Topology.ResourcePool), true
			}
		}
		return !found || !pooled
	})
}

// checkPoolPermissions finds privileges that the user lacks on resource pools that somebody made (detector: node_resource_pool_permissions.go).
func checkPoolPermissions(in input) []finding {
	return in.lacking(func(_ vsphere.VCenter, one vsphere.Privileges) bool {
		return one.Kind == vsphere.OnResourcePool && isOwnPool(one.Path)
	})
}

// isOwnPool is false for the pool that each compute cluster has.
func isOwnPool(pool string) bool { return pool != "" && path.Base(pool) != "Resources" }

// checkTaskPermissions finds vCenters whose tasks the user can't list, for which the driver waits (detector: tasks.go).
func checkTaskPermissions(in input) []finding {
	var found []finding
	for _, vc := range in.vCenters() {
		if !vc.CanReadTasks {
			found = append(found, about(vc.Server, warn, []string{vc.User}, "user %s may not list recent tasks, for which the driver waits. "+
				"Grant it the role Read-only on the root of the vCenter"))
		}
	}
	return found
}
