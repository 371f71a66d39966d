package efshealth

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// networkTimeout is the time limit for all requests about the network in one poll. The rest of the poll does not need the answers to these requests.
const networkTimeout = time.Minute

// networkActions are the optional IAM actions that tell which nodes reach which mount targets.
func networkActions() []string {
	return []string{
		"ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups", "ec2:GetManagedPrefixListEntries",
		"elasticfilesystem:DescribeMountTargetSecurityGroups",
	}
}

// readNetwork reads the network between nodes and the mount targets of their zones. It returns nil if it can't read all of the network. In that case,
// it is unknown which nodes reach which mount targets, but the rest of the poll is valid. Result "failed" is true if a request failed for another
// reason than a missing permission.
func readNetwork(ctx context.Context, cloud Cloud, nodes []nodePlace, targets []aws.MountTarget, denied denials) (read *network, failed bool) {
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	found := &network{groups: map[string]aws.SecurityGroup{}, interfaces: map[string]aws.NetworkInterface{}, lists: map[string][]string{}}
	err := found.read(ctx, cloud, nodes, targets)
	if err == nil {
		return found, false
	}
	if denied.add(err) == nil {
		return nil, false
	}
	ctrl.LoggerFrom(ctx).Info("could not check which nodes reach which mount targets", "reason", err.Error(), "again", shortInterval.String())
	return nil, true
}

func (n *network) read(ctx context.Context, cloud Cloud, nodes []nodePlace, targets []aws.MountTarget) error {
	zones, instances := map[string]string{}, []string{}
	for _, node := range nodes {
		if node.instance != "" && slices.ContainsFunc(targets, func(one aws.MountTarget) bool { return one.Zone == node.zone }) {
			zones[node.instance], instances = node.zone, append(instances, node.instance)
		}
	}
	if len(instances) == 0 {
		return nil
	}
	interfaces, err := cloud.NetworkInterfaces(ctx, instances)
	if err != nil {
		return fmt.Errorf("read the network of nodes: %w", err)
	}
	has := map[string]bool{}
	for _, one := range interfaces {
		n.interfaces[one.Instance], has[zones[one.Instance]] = one, true
	}
	groups := map[string]bool{}
	for _, one := range targets {
		if !has[one.Zone] {
			continue
		}
		ids, err := cloud.MountTargetSecurityGroups(ctx, one.ID)
		switch {
		case aws.IsNotFound(err), err == nil && len(ids) == 0:
			continue
		case err != nil:
			return fmt.Errorf("read the security groups of mount targets: %w", err)
		}
		slices.Sort(ids)
		n.targets = append(n.targets, target{
			id: one.ID, fileSystem: one.FileSystem, zone: one.Zone, addresses: []string{one.Address, one.IPv6}, groups: ids,
		})
		for _, id := range ids {
			groups[id] = true
		}
	}
	return n.readRules(ctx, cloud, slices.Sorted(maps.Keys(groups)))
}

func (n *network) readRules(ctx context.Context, cloud Cloud, groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	found, err := cloud.SecurityGroupsOf(ctx, groups)
	if err != nil {
		return fmt.Errorf("read the rules of mount targets: %w", err)
	}
	for _, one := range found {
		n.groups[one.ID] = one
	}
	for _, id := range prefixLists(n.groups) {
		cidrs, err := cloud.PrefixList(ctx, id)
		switch {
		case aws.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("read the rules of mount targets: %w", err)
		default:
			n.lists[id] = cidrs
		}
	}
	return nil
}
