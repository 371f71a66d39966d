package vspherehealth

import (
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// Tag categories of regions and zones (vsphere-problem-detector b2f09a5b, zones.go; vmware-vsphere-csi-driver-operator 030ff0e3,
// pkg/operator/utils/topology.go).
const (
	regionCategory = "openshift-region"
	zoneCategory   = "openshift-zone"
)

func isHostGroup(domain configv1.VSpherePlatformFailureDomainSpec) bool {
	return domain.ZoneAffinity != nil && domain.ZoneAffinity.Type == configv1.HostGroupFailureDomainZone && domain.ZoneAffinity.HostGroup != nil
}

// hasTag reports whether at least one of the objects has the tag with this name and category.
func hasTag(vc vsphere.VCenter, category, name string, objects []vsphere.Ref) bool {
	return slices.ContainsFunc(vc.Tags, func(tag vsphere.Tag) bool {
		return tag.Name == name && categoryName(vc, tag.CategoryID) == category &&
			slices.ContainsFunc(vc.Attachments, func(one vsphere.Attachment) bool { return one.TagID == tag.ID && slices.Contains(objects, one.Object) })
	})
}

func categoryName(vc vsphere.VCenter, id string) string {
	for _, one := range vc.Categories {
		if one.ID == id {
			return one.Name
		}
	}
	return ""
}

// checkZoneTags finds failure domains without the tags of their region and zone. The compute cluster, or a folder or datacenter above it, must have
// these tags. A single failure domain needs no tags (vsphere-problem-detector b2f09a5b, zones.go). Unlike this check, zones.go accepts the tags of
// any region and any zone.
func checkZoneTags(in input) []finding {
	if len(in.want.FailureDomains) < 2 {
		return nil
	}
	return in.perDomain(warn, func(domain configv1.VSpherePlatformFailureDomainSpec, vc vsphere.VCenter) []string {
		cluster, exists := clusterOf(vc, domain.Topology.ComputeCluster)
		if !exists {
			return nil
		}
		region, zone := append([]vsphere.Ref{cluster.Ref}, cluster.Ancestors...), append([]vsphere.Ref{cluster.Ref}, cluster.Ancestors...)
		switch affinity := domain.RegionAffinity; {
		case affinity != nil && affinity.Type == configv1.DatacenterFailureDomainRegion:
			region = slices.DeleteFunc(region, func(one vsphere.Ref) bool { return one.Type != "Datacenter" })
		case affinity != nil && affinity.Type == configv1.ComputeClusterFailureDomainRegion:
			region = region[:1]
		}
		if affinity := domain.ZoneAffinity; affinity != nil && affinity.Type == configv1.ComputeClusterFailureDomainZone {
			zone = zone[:1]
		}
		var missing []string
		if !hasTag(vc, regionCategory, domain.Region, region) {
			missing = append(missing, fmt.Sprintf("%s %q for failure domain %s", regionCategory, domain.Region, domain.Name))
		}
		// If the zone is a host group, the hosts of the group have the tag of the zone instead.
		if !isHostGroup(domain) && !hasTag(vc, zoneCategory, domain.Zone, zone) {
			missing = append(missing, fmt.Sprintf("%s %q for failure domain %s", zoneCategory, domain.Zone, domain.Name))
		}
		return missing
	}, "tags are missing on the compute clusters, or on the datacenter or folder above them: %s. The driver does not know the topology of these nodes. "+
		"Attach the tags")
}

// checkHostGroups finds failure domains of type host group that lack a group, a rule or a tag (vsphere-problem-detector b2f09a5b,
// cluster_host_group.go).
func checkHostGroups(in input) []finding {
	return in.perDomain(warn, func(domain configv1.VSpherePlatformFailureDomainSpec, vc vsphere.VCenter) []string {
		cluster, exists := clusterOf(vc, domain.Topology.ComputeCluster)
		if !isHostGroup(domain) || !exists {
			return nil
		}
		group := domain.ZoneAffinity.HostGroup
		var wrong []string
		add := func(format string, arguments ...any) {
			wrong = append(wrong, fmt.Sprintf("failure domain %s: ", domain.Name)+fmt.Sprintf(format, arguments...))
		}
		hosts, exists := cluster.HostGroups[group.HostGroup]
		switch {
		case !exists:
			add("host group %s does not exist", group.HostGroup)
		case len(hosts) == 0:
			add("host group %s is empty", group.HostGroup)
		}
		for _, host := range hosts {
			if !hasTag(vc, zoneCategory, domain.Zone, []vsphere.Ref{host}) {
				add("host %s lacks tag %s %q", hostName(vc, host), zoneCategory, domain.Zone)
			}
		}
		if !slices.Contains(cluster.VMGroups, group.VMGroup) {
			add("VM group %s does not exist", group.VMGroup)
		}
		if !slices.Contains(cluster.VMHostRules, group.VMHostRule) {
			add("VM-host rule %s does not exist", group.VMHostRule)
		}
		return wrong
	}, "host groups differ from the Infrastructure: %s. VMs can run outside of the zone of their volumes. Create the missing objects")
}

func hostName(vc vsphere.VCenter, ref vsphere.Ref) string {
	for _, one := range vc.Hosts {
		if one.Ref == ref {
			return one.Name
		}
	}
	return ref.Value
}
