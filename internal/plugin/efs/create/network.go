package create

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

// internalTag marks the subnets in which installers put nodes.
const internalTag = "kubernetes.io/role/internal-elb"

// network has the VPC of a share, and the subnets for its mount targets: one subnet for each zone, sorted by zone.
type network struct {
	vpc     aws.VPC
	subnets []aws.Subnet
}

func (c *creation) findNetwork(ctx context.Context) (network, error) {
	subnets, err := c.findSubnets(ctx)
	if err != nil {
		return network{}, err
	}
	vpc, err := c.findVPC(ctx, subnets)
	if err != nil {
		return network{}, err
	}
	inVPC := slices.DeleteFunc(slices.Clone(subnets), func(s aws.Subnet) bool { return s.VPC != vpc.ID })
	if len(c.Subnets) > 0 && len(inVPC) < len(subnets) {
		return network{}, usage("not all of subnets %s are in VPC %s", strings.Join(c.Subnets, ", "), vpc.ID)
	}
	chosen, err := c.onePerZone(inVPC, vpc.ID)
	return network{vpc, chosen}, err
}

// findSubnets finds the subnets that the user names, or else the subnets with the cluster's tag. It ignores the tag's value, because the installer
// sets "shared" in a network that the administrator owns.
func (c *creation) findSubnets(ctx context.Context) ([]aws.Subnet, error) {
	key := efscleanup.ClusterTag(c.InfraID)
	if len(c.Subnets) > 0 {
		key = ""
	}
	subnets, err := c.cloud.Subnets(ctx, key, c.Subnets...)
	if err != nil {
		return nil, fmt.Errorf("find the subnets: %w", err)
	}
	return slices.DeleteFunc(subnets, func(s aws.Subnet) bool { return key != "" && !has(s.Tags, key) }), nil
}

// findVPC finds the VPC that the user names. If the user names only subnets, it finds the VPC of these subnets. If the user names neither, it finds
// the VPC with the cluster's tag.
func (c *creation) findVPC(ctx context.Context, subnets []aws.Subnet) (aws.VPC, error) {
	key, ids := efscleanup.ClusterTag(c.InfraID), []string{}
	if c.VPC != "" {
		key, ids = "", []string{c.VPC}
	} else if len(c.Subnets) > 0 {
		key, ids = "", vpcsOf(subnets)
	}
	found, err := c.vpcs(ctx, key, ids)
	if err != nil {
		return aws.VPC{}, err
	}
	if len(found) == 0 && key != "" && len(subnets) > 0 {
		// A VPC that the administrator created may lack the cluster's tag, so find the VPC by its subnets.
		if found, err = c.vpcs(ctx, "", vpcsOf(subnets)); err != nil {
			return aws.VPC{}, err
		}
	}
	switch len(found) {
	case 0:
		return aws.VPC{}, usage("no VPC and no subnet in region %s has the tag %s: check the infrastructure ID and the region, or name "+
			"the VPC and its subnets", c.Region, efscleanup.ClusterTag(c.InfraID))
	case 1:
		return found[0], nil
	}
	names := make([]string, 0, len(found))
	for _, vpc := range found {
		names = append(names, vpc.ID)
	}
	return aws.VPC{}, usage("several VPCs match: %s; name one of them with --vpc", strings.Join(names, ", "))
}

func (c *creation) vpcs(ctx context.Context, key string, ids []string) ([]aws.VPC, error) {
	found, err := c.cloud.VPCs(ctx, key, ids...)
	if err != nil {
		return nil, fmt.Errorf("find the VPC: %w", err)
	}
	return slices.DeleteFunc(found, func(v aws.VPC) bool { return key != "" && !has(v.Tags, key) }), nil
}

// onePerZone chooses one subnet for each zone, because EFS allows one mount target in each zone. For a One Zone file system, it chooses only a subnet
// of that zone.
func (c *creation) onePerZone(subnets []aws.Subnet, vpc string) ([]aws.Subnet, error) {
	slices.SortFunc(subnets, func(a, b aws.Subnet) int {
		if internal := has(a.Tags, internalTag); internal != has(b.Tags, internalTag) {
			return map[bool]int{true: -1, false: 1}[internal]
		}
		return cmp.Compare(a.ID, b.ID)
	})
	byZone := map[string]aws.Subnet{}
	for _, subnet := range subnets {
		other, taken := byZone[subnet.Zone]
		if taken && len(c.Subnets) > 0 {
			return nil, usage("subnets %s and %s are both in zone %s: EFS takes one subnet for each zone", other.ID, subnet.ID, subnet.Zone)
		}
		if !taken {
			byZone[subnet.Zone] = subnet
		}
	}
	zones := slices.Sorted(maps.Keys(byZone))
	if len(zones) == 0 {
		return nil, usage("VPC %s has no subnet with the tag %s: name the subnets with --subnets", vpc, efscleanup.ClusterTag(c.InfraID))
	}
	if c.Zone != "" {
		subnet, there := byZone[c.Zone]
		if !there {
			return nil, usage("no subnet is in zone %s; subnets are in %s", c.Zone, strings.Join(zones, ", "))
		}
		return []aws.Subnet{subnet}, nil
	}
	chosen := make([]aws.Subnet, 0, len(zones))
	for _, zone := range zones {
		chosen = append(chosen, byZone[zone])
	}
	return chosen, nil
}

func vpcsOf(subnets []aws.Subnet) []string {
	var ids []string
	for _, subnet := range subnets {
		ids = append(ids, subnet.VPC)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func has(tags aws.Tags, key string) bool {
	_, there := tags[key]
	return there
}
