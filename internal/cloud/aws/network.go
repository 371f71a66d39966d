package aws

import (
	"context"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
)

// mostFilterValues is the maximum number of values of a filter of EC2.
const mostFilterValues = 200

// MountTargetSecurityGroups returns the IDs of the security groups of a mount target.
func (c *Client) MountTargetSecurityGroups(ctx context.Context, mountTarget string) ([]string, error) {
	answer, err := c.efs.DescribeMountTargetSecurityGroups(ctx, &efs.DescribeMountTargetSecurityGroupsInput{MountTargetId: &mountTarget})
	if err != nil {
		return nil, failed("elasticfilesystem:DescribeMountTargetSecurityGroups", mountTarget, err)
	}
	return answer.SecurityGroups, nil
}

// SecurityGroupsOf reads security groups with their inbound rules. It omits security groups that do not exist.
func (c *Client) SecurityGroupsOf(ctx context.Context, ids []string) ([]SecurityGroup, error) {
	return inChunks(ids, func(some []string) ([]SecurityGroup, error) {
		pages := ec2.NewDescribeSecurityGroupsPaginator(c.ec2, &ec2.DescribeSecurityGroupsInput{Filters: filter("group-id", some)})
		return list(ctx, pages, "ec2:DescribeSecurityGroups", "", func(page *ec2.DescribeSecurityGroupsOutput) []SecurityGroup {
			return convert(page.SecurityGroups, securityGroup)
		})
	})
}

// NetworkInterfaces returns the primary network interfaces of instances. It omits instances that do not exist.
func (c *Client) NetworkInterfaces(ctx context.Context, instances []string) ([]NetworkInterface, error) {
	return inChunks(instances, func(some []string) ([]NetworkInterface, error) {
		pages := ec2.NewDescribeNetworkInterfacesPaginator(c.ec2, &ec2.DescribeNetworkInterfacesInput{Filters: filter("attachment.instance-id", some)})
		return list(ctx, pages, "ec2:DescribeNetworkInterfaces", "", func(page *ec2.DescribeNetworkInterfacesOutput) []NetworkInterface {
			primary := slices.DeleteFunc(page.NetworkInterfaces, func(one types.NetworkInterface) bool {
				return one.Attachment == nil || sdk.ToInt32(one.Attachment.DeviceIndex) != 0
			})
			return convert(primary, networkInterface)
		})
	})
}

// inChunks calls read with as many values at a time as a filter of EC2 may have, and returns all results.
func inChunks[T any](values []string, read func(some []string) ([]T, error)) ([]T, error) {
	var all []T
	for some := range slices.Chunk(values, mostFilterValues) {
		found, err := read(some)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// PrefixList returns the CIDRs of a managed prefix list.
func (c *Client) PrefixList(ctx context.Context, id string) ([]string, error) {
	pages := ec2.NewGetManagedPrefixListEntriesPaginator(c.ec2, &ec2.GetManagedPrefixListEntriesInput{PrefixListId: &id})
	return list(ctx, pages, "ec2:GetManagedPrefixListEntries", id, func(page *ec2.GetManagedPrefixListEntriesOutput) []string {
		return convert(page.Entries, func(entry *types.PrefixListEntry) string { return sdk.ToString(entry.Cidr) })
	})
}

func filter(name string, values []string) []types.Filter {
	return []types.Filter{{Name: sdk.String(name), Values: values}}
}

func networkInterface(from *types.NetworkInterface) NetworkInterface {
	found := NetworkInterface{Instance: sdk.ToString(from.Attachment.InstanceId), Subnet: sdk.ToString(from.SubnetId)}
	for _, group := range from.Groups {
		found.Groups = append(found.Groups, sdk.ToString(group.GroupId))
	}
	if from.PrivateIpAddress != nil {
		found.Addresses = append(found.Addresses, *from.PrivateIpAddress)
	}
	for _, address := range from.Ipv6Addresses {
		found.Addresses = append(found.Addresses, sdk.ToString(address.Ipv6Address))
	}
	return found
}

func rule(from *types.IpPermission) Rule {
	// A rule for all protocols has no ports.
	found := Rule{Protocol: sdk.ToString(from.IpProtocol), From: sdk.ToInt32(from.FromPort), To: sdk.ToInt32(from.ToPort)}
	for _, one := range from.IpRanges {
		found.CIDRs = append(found.CIDRs, sdk.ToString(one.CidrIp))
	}
	for _, one := range from.Ipv6Ranges {
		found.CIDRs = append(found.CIDRs, sdk.ToString(one.CidrIpv6))
	}
	for _, one := range from.UserIdGroupPairs {
		found.Groups = append(found.Groups, sdk.ToString(one.GroupId))
	}
	for _, one := range from.PrefixListIds {
		found.PrefixLists = append(found.PrefixLists, sdk.ToString(one.PrefixListId))
	}
	return found
}
