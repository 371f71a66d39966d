package vspherehealth

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// mostPrivileges limits how many missing privileges a message names for one object.
const mostPrivileges = 12

// lacking returns a finding for each vCenter where the user lacks privileges on objects. It considers only objects for which the function "matters"
// returns true.
func (in input) lacking(matters func(vsphere.VCenter, vsphere.Privileges) bool) []finding {
	var found []finding
	for _, vc := range in.vCenters() {
		var names []string
		for _, one := range vc.Privileges {
			if len(one.Missing) > 0 && matters(vc, one) {
				names = append(names, fmt.Sprintf("on %s %s (%s)", one.Kind, one.Path, status.ShortenTo(one.Missing, mostPrivileges)))
			}
		}
		found = append(found, findingsAbout(vc.Server, warn, names, "user %[2]s lacks privileges %[1]s. Add them to the role of the user", vc.User)...)
	}
	return found
}

// checkAccountPermissions finds privileges that the user lacks on vCenters, datacenters, folders and datastores (vsphere-problem-detector b2f09a5b,
// permissions.go, datastore.go and folder.go). The file folder.go lists a datastore instead of asking for privilege Datastore.Browse.
func checkAccountPermissions(in input) []finding {
	return in.lacking(func(_ vsphere.VCenter, one vsphere.Privileges) bool {
		return slices.Contains([]vsphere.PrivilegeKind{vsphere.OnVCenter, vsphere.OnDatacenter, vsphere.OnFolder, vsphere.OnDatastore}, one.Kind)
	})
}

// checkClusterPermissions finds privileges that the user lacks on compute clusters. If all failure domains of a compute cluster use custom resource
// pools, the user needs the privileges on these pools instead (vsphere-problem-detector b2f09a5b, node_cluster_permissions.go).
func checkClusterPermissions(in input) []finding {
	return in.lacking(func(vc vsphere.VCenter, one vsphere.Privileges) bool {
		if one.Kind != vsphere.OnCluster {
			return false
		}
		pooled, found := true, false
		for _, domain := range in.domains() {
			if strings.EqualFold(domain.Server, vc.Server) && (domain.Topology.ComputeCluster == one.Path || len(in.domains()) == 1) {
				pooled, found = pooled && isCustomPool(domain.Topology.ResourcePool), true
			}
		}
		return !found || !pooled
	})
}

// checkPoolPermissions finds privileges that the user lacks on custom resource pools (vsphere-problem-detector b2f09a5b,
// node_resource_pool_permissions.go).
func checkPoolPermissions(in input) []finding {
	return in.lacking(func(_ vsphere.VCenter, one vsphere.Privileges) bool {
		return one.Kind == vsphere.OnResourcePool && isCustomPool(one.Path)
	})
}

// isCustomPool reports whether a resource pool is a custom pool. The root pool of a compute cluster is no custom pool.
func isCustomPool(pool string) bool { return pool != "" && path.Base(pool) != "Resources" }

// checkTaskPermissions finds vCenters whose tasks the user can't list. The driver works through tasks in vCenter, for example to create a volume, and
// must see when each task ends (vsphere-problem-detector b2f09a5b, tasks.go).
func checkTaskPermissions(in input) []finding {
	var found []finding
	for _, vc := range in.vCenters() {
		if !vc.CanReadTasks {
			found = append(found, newFinding(vc.Server, warn, []string{vc.User}, "user %s may not list recent tasks, for which the driver waits. "+
				"Grant it the role Read-only on the root of the vCenter"))
		}
	}
	return found
}
