package vsphere

import (
	"cmp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// Want is what a poll looks at, besides what the configuration names. It comes from the cluster.
type Want struct {
	// InfrastructureID names the cluster: its tag category is openshift-<ID>.
	InfrastructureID string
	// FailureDomains are those of the Infrastructure. Without any, the configuration's default datacenter and datastore are the only one.
	FailureDomains []configv1.VSpherePlatformFailureDomainSpec
	// UUIDs are those of the nodes' VMs, in lower case, by providerID.
	UUIDs []string
	// Datastores are names and URLs that StorageClasses and PVs mention.
	Datastores []string
}

// WithDefault is the Want with at least one failure domain, if the configuration has the workspace of the legacy form: the one that it
// describes, without a name (openshift/vsphere-problem-detector b2f09a5b, pkg/check/util.go, addFailureDomainsToPlatformSpec).
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

// of are the failure domains of a vCenter.
func (w Want) of(server string) []configv1.VSpherePlatformFailureDomainSpec {
	var found []configv1.VSpherePlatformFailureDomainSpec
	for _, domain := range w.FailureDomains {
		if strings.EqualFold(domain.Server, server) {
			found = append(found, domain)
		}
	}
	return found
}
