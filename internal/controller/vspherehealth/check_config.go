package vspherehealth

import (
	"fmt"
	"slices"
	"strings"
)

// checkInfrastructure compares three lists of vCenters: the lists in the Infrastructure, in the cloud configuration and in the failure domains
// (vsphere-problem-detector b2f09a5b, infra_config.go).
func checkInfrastructure(in input) []finding {
	if len(in.want.FailureDomains) == 0 || len(in.config.VCenters) == 0 {
		return nil
	}
	var configured, listed, used, wrong []string
	for _, one := range in.config.VCenters {
		configured = append(configured, one.Server)
	}
	for _, one := range in.cluster.vCenters {
		listed = append(listed, one.Server)
		if !has(configured, one.Server) {
			wrong = append(wrong, fmt.Sprintf("vCenter %s is in the Infrastructure, but not in the cloud configuration", one.Server))
		}
	}
	for _, one := range configured {
		if !has(listed, one) {
			wrong = append(wrong, fmt.Sprintf("vCenter %s is in the cloud configuration, but not in the Infrastructure", one))
		}
	}
	for _, domain := range in.want.FailureDomains {
		used = append(used, domain.Server)
		if !has(listed, domain.Server) {
			wrong = append(wrong, fmt.Sprintf("failure domain %s is in vCenter %s, which the Infrastructure does not list", domain.Name, domain.Server))
		}
	}
	for _, one := range listed {
		if !has(used, one) {
			wrong = append(wrong, fmt.Sprintf("no failure domain is in vCenter %s", one))
		}
	}
	return findingsAbout("", warn, wrong, "%s. Make Infrastructure cluster and ConfigMap cloud-provider-config agree")
}

// has reports whether a list contains a host name, ignoring case.
func has(servers []string, server string) bool {
	return slices.ContainsFunc(servers, func(one string) bool { return strings.EqualFold(one, server) })
}

// checkDatacenters finds failure domains whose datacenter is missing from the datacenters of their vCenter. The cloud configuration and the
// Infrastructure each have a list of these datacenters (vsphere-problem-detector b2f09a5b, datacenter_consistency.go).
func checkDatacenters(in input) []finding {
	var wrong []string
	for _, domain := range in.want.FailureDomains {
		datacenter := domain.Topology.Datacenter
		for _, one := range in.config.VCenters {
			if strings.EqualFold(one.Server, domain.Server) && !hasDatacenter(one.Datacenters, datacenter) {
				wrong = append(wrong, fmt.Sprintf("%s of failure domain %s in the cloud configuration", datacenter, domain.Name))
			}
		}
		for _, one := range in.cluster.vCenters {
			if strings.EqualFold(one.Server, domain.Server) && !hasDatacenter(one.Datacenters, datacenter) {
				wrong = append(wrong, fmt.Sprintf("%s of failure domain %s in the Infrastructure", datacenter, domain.Name))
			}
		}
	}
	return findingsAbout("", warn, wrong, ""+
		"datacenters of failure domains are missing from the list of their vCenter: %s. The driver finds no nodes and "+
		"volumes in them. Add them to the list")
}
