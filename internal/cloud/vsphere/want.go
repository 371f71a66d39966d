package vsphere

import (
	"cmp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// Want selects what a poll reads, in addition to what the configuration names. Want is made from objects of the cluster.
type Want struct {
	// InfrastructureID is the name of the cluster. The cluster's tag category is openshift-<ID>.
	InfrastructureID string
	// FailureDomains are the failure domains of the Infrastructure. If there are none, WithDefault adds a failure domain for the configuration's default
	// datacenter and datastore.
	FailureDomains []configv1.VSpherePlatformFailureDomainSpec
	// UUIDs are the UUIDs of the nodes' VMs, in lower case, from providerID.
	UUIDs []string
	// Datastores are names and URLs in StorageClasses and PVs.
	Datastores []string
}

// WithDefault returns the Want. If the Want has no failure domain, WithDefault adds one without a name for the configuration's workspace
// (openshift/vsphere-problem-detector b2f09a5b, pkg/check/util.go, addFailureDomainsToPlatformSpec).
func (w Want) WithDefault(config cloudconfig.Config) Want {
	place := config.Workspace
	if len(w.FailureDomains) > 0 || place == (cloudconfig.Workspace{}) || len(config.VCenters) == 0 {
		return w
	}
	server := cmp.Or(place.Server, config.VCenters[0].Server)
	at := slices.IndexFunc(config.VCenters, func(one cloudconfig.VCenterConfig) bool { return strings.EqualFold(one.Server, server) })
	if at < 0 {
		return w
	}
	datacenter := place.Datacenter
	if known := config.VCenters[at].Datacenters; datacenter == "" && len(known) == 1 {
		datacenter = known[0]
	}
	w.FailureDomains = []configv1.VSpherePlatformFailureDomainSpec{{Server: server, Topology: configv1.VSpherePlatformTopology{
		Datacenter: datacenter, Datastore: place.Datastore, Folder: place.Folder, ResourcePool: place.ResourcePool,
	}}}
	return w
}

// of returns the failure domains of a vCenter.
func (w Want) of(server string) []configv1.VSpherePlatformFailureDomainSpec {
	var found []configv1.VSpherePlatformFailureDomainSpec
	for _, domain := range w.FailureDomains {
		if strings.EqualFold(domain.Server, server) {
			found = append(found, domain)
		}
	}
	return found
}
