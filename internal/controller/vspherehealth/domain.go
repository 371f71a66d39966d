package vspherehealth

import (
	"path"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/vsphere"
)

// domains are the failure domains; without any, the default place of the configuration is the only one (operator: vspherecontroller.go,
// ConvertToPlatformSpec).
func (in input) domains() []configv1.VSpherePlatformFailureDomainSpec {
	place := in.config.Workspace
	if len(in.want.FailureDomains) > 0 || place.Server == "" {
		return in.want.FailureDomains
	}
	return []configv1.VSpherePlatformFailureDomainSpec{{Name: "default", Server: place.Server, Topology: configv1.VSpherePlatformTopology{
		Datacenter: place.Datacenter, Datastore: place.Datastore, Folder: place.Folder, ResourcePool: place.ResourcePool,
	}}}
}

// each visits the failure domains whose vCenter can be checked.
func (in input) each(visit func(configv1.VSpherePlatformFailureDomainSpec, vsphere.VCenter)) {
	for _, domain := range in.domains() {
		if vc, seen := in.of(domain.Server); seen {
			visit(domain, vc)
		}
	}
}

// sameDatacenter compares names or paths of datacenters.
func sameDatacenter(a, b string) bool {
	if strings.HasPrefix(a, "/") && strings.HasPrefix(b, "/") {
		return a == b
	}
	return path.Base(a) == path.Base(b)
}

func hasDatacenter(datacenters []string, wanted string) bool {
	return slices.ContainsFunc(datacenters, func(one string) bool { return sameDatacenter(one, wanted) })
}

// datacenterOf finds that of a failure domain.
func datacenterOf(vc vsphere.VCenter, wanted string) (vsphere.Datacenter, bool) {
	for _, one := range vc.Datacenters {
		if one.Ref != (vsphere.Ref{}) && (one.Name == wanted || one.Path != "" && sameDatacenter(one.Path, wanted)) {
			return one, true
		}
	}
	return vsphere.Datacenter{}, false
}

// datastoreOf finds that of a failure domain, by its path, or by its name in the datacenter.
func datastoreOf(vc vsphere.VCenter, topology configv1.VSpherePlatformTopology) (vsphere.Datastore, bool) {
	for _, one := range vc.Datastores {
		byPath := one.Path == topology.Datastore
		if byPath || one.Name == topology.Datastore && sameDatacenter(one.Datacenter, topology.Datacenter) {
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

// defaultURL is that of the datastore of the first failure domain, where there is one vCenter. The driver looks for volumes of Kubernetes' own plugin
// there (operator: vspherecontroller.go, createCSISecret; storageclasscontroller/vmware.go, GetDefaultDatastore).
func (in input) defaultURL() string {
	domains := in.domains()
	if len(in.snapshot.VCenters) != 1 || len(domains) == 0 {
		return ""
	}
	vc, _ := in.of(domains[0].Server)
	datastore, _ := datastoreOf(vc, domains[0].Topology)
	return datastore.URL
}
