package vspherehealth

import (
	"cmp"
	"path"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// domains returns the failure domains. If the Infrastructure has none, it returns one failure domain for the default placement in the cloud
// configuration (vmware-vsphere-csi-driver-operator 030ff0e3, vspherecontroller.go, ConvertToPlatformSpec).
func (in input) domains() []configv1.VSpherePlatformFailureDomainSpec {
	place := in.config.Workspace
	if len(in.want.FailureDomains) > 0 || place == (cloudconfig.Workspace{}) || len(in.config.VCenters) == 0 {
		return in.want.FailureDomains
	}
	server := cmp.Or(place.Server, in.config.VCenters[0].Server)
	return []configv1.VSpherePlatformFailureDomainSpec{{Name: "default", Server: server, Topology: configv1.VSpherePlatformTopology{
		Datacenter: place.Datacenter, Datastore: place.Datastore, Folder: place.Folder, ResourcePool: place.ResourcePool,
	}}}
}

// each calls function "visit" for each failure domain on whose vCenter the checks can rely.
func (in input) each(visit func(configv1.VSpherePlatformFailureDomainSpec, vsphere.VCenter)) {
	for _, domain := range in.domains() {
		if vc, seen := in.of(domain.Server); seen {
			visit(domain, vc)
		}
	}
}

// sameDatacenter reports whether two names or paths mean the same datacenter.
func sameDatacenter(a, b string) bool {
	if strings.HasPrefix(a, "/") && strings.HasPrefix(b, "/") {
		return a == b
	}
	return path.Base(a) == path.Base(b)
}

func hasDatacenter(datacenters []string, wanted string) bool {
	return slices.ContainsFunc(datacenters, func(one string) bool { return sameDatacenter(one, wanted) })
}

// datastoreOf returns the datastore of a failure domain. It finds a datastore by its path. Within the failure domain's datacenter, it also finds a
// datastore by its name or by the end of its path.
func datastoreOf(vc vsphere.VCenter, topology configv1.VSpherePlatformTopology) (vsphere.Datastore, bool) {
	for _, one := range vc.Datastores {
		here := topology.Datacenter == "" || sameDatacenter(one.Datacenter, topology.Datacenter)
		named := one.Name == topology.Datastore || strings.HasSuffix(one.Path, "/datastore/"+topology.Datastore)
		if one.Path == topology.Datastore || here && named && topology.Datastore != "" {
			return one, true
		}
	}
	return vsphere.Datastore{}, false
}

func clusterOf(vc vsphere.VCenter, wanted string) (vsphere.ComputeCluster, bool) {
	for _, one := range vc.Clusters {
		if one.Path == wanted && one.Ref != (vsphere.Ref{}) {
			return one, true
		}
	}
	return vsphere.ComputeCluster{}, false
}

// defaultURL returns the URL of the first failure domain's datastore, in clusters with one vCenter. The driver looks for volumes of the in-tree
// plugin in this datastore (vmware-vsphere-csi-driver-operator 030ff0e3, vspherecontroller.go, createCSISecret; storageclasscontroller/vmware.go,
// GetDefaultDatastore).
func (in input) defaultURL() string {
	domains := in.domains()
	if len(in.snapshot.VCenters) != 1 || len(domains) == 0 {
		return ""
	}
	vc, _ := in.of(domains[0].Server)
	datastore, _ := datastoreOf(vc, domains[0].Topology)
	return datastore.URL
}
