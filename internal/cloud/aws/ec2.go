package aws

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// keys returns the sorted keys, so that equal requests have equal bytes.
func (t Tags) keys() []string { return slices.Sorted(maps.Keys(t)) }

// SecurityGroups lists the security groups that have a tag with this key.
func (c *Client) SecurityGroups(ctx context.Context, tagKey string) ([]SecurityGroup, error) {
	pages := ec2.NewDescribeSecurityGroupsPaginator(c.ec2, &ec2.DescribeSecurityGroupsInput{Filters: withTag(tagKey)})
	return list(ctx, pages, "ec2:DescribeSecurityGroups", "", func(page *ec2.DescribeSecurityGroupsOutput) []SecurityGroup {
		return convert(page.SecurityGroups, securityGroup)
	})
}

// SecurityGroup reads a security group.
func (c *Client) SecurityGroup(ctx context.Context, id string) (SecurityGroup, error) {
	const action = "ec2:DescribeSecurityGroups"
	answer, err := c.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{id}})
	if err != nil {
		return SecurityGroup{}, failed(action, id, err)
	}
	if len(answer.SecurityGroups) != 1 || sdk.ToString(answer.SecurityGroups[0].GroupId) != id {
		return SecurityGroup{}, failed(action, id, errors.New("AWS answered with another object: its ID is not the requested one"))
	}
	return securityGroup(&answer.SecurityGroups[0]), nil
}

// VPCs lists the VPCs with a tag that has this key, or with the given IDs.
func (c *Client) VPCs(ctx context.Context, tagKey string, ids ...string) ([]VPC, error) {
	pages := ec2.NewDescribeVpcsPaginator(c.ec2, &ec2.DescribeVpcsInput{Filters: withTag(tagKey), VpcIds: ids})
	return list(ctx, pages, "ec2:DescribeVpcs", strings.Join(ids, ", "), func(page *ec2.DescribeVpcsOutput) []VPC {
		return convert(page.Vpcs, vpc)
	})
}

// Subnets lists the subnets with a tag that has this key, or with the given IDs.
func (c *Client) Subnets(ctx context.Context, tagKey string, ids ...string) ([]Subnet, error) {
	pages := ec2.NewDescribeSubnetsPaginator(c.ec2, &ec2.DescribeSubnetsInput{Filters: withTag(tagKey), SubnetIds: ids})
	return list(ctx, pages, "ec2:DescribeSubnets", strings.Join(ids, ", "), func(page *ec2.DescribeSubnetsOutput) []Subnet {
		return convert(page.Subnets, subnet)
	})
}

// DeleteSecurityGroup deletes a security group.
func (c *Client) DeleteSecurityGroup(ctx context.Context, id string) error {
	_, err := c.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &id})
	return failedIf("ec2:DeleteSecurityGroup", id, err)
}

// CreateSecurityGroup creates a security group without inbound rules.
func (c *Client) CreateSecurityGroup(ctx context.Context, wanted NewSecurityGroup) (string, error) {
	tags := make([]types.Tag, 0, len(wanted.Tags))
	for _, key := range wanted.Tags.keys() {
		tags = append(tags, types.Tag{Key: sdk.String(key), Value: sdk.String(wanted.Tags[key])})
	}
	answer, err := c.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName: &wanted.Name, Description: &wanted.Description, VpcId: &wanted.VPC,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSecurityGroup, Tags: tags}},
	})
	if err != nil {
		return "", failed("ec2:CreateSecurityGroup", wanted.Name, err)
	}
	return sdk.ToString(answer.GroupId), nil
}

// AllowTCP adds one inbound rule for each CIDR. It sends one request per rule, because AWS rejects the whole request if one of several rules already
// exists.
func (c *Client) AllowTCP(ctx context.Context, securityGroup string, port int32, cidrs ...string) error {
	for _, cidr := range cidrs {
		_, err := c.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{
			GroupId: &securityGroup,
			IpPermissions: []types.IpPermission{{
				IpProtocol: sdk.String("tcp"), FromPort: &port, ToPort: &port, IpRanges: []types.IpRange{{CidrIp: sdk.String(cidr)}},
			}},
		})
		if err = failedIf("ec2:AuthorizeSecurityGroupIngress", securityGroup, err); err != nil && !IsExisting(err) {
			return err
		}
	}
	return nil
}

// withTag makes a filter by tag key. For an empty key, it makes none. AWS treats * and ? as wildcards, so callers must compare the keys of the
// result.
func withTag(key string) []types.Filter {
	if key == "" {
		return nil
	}
	return []types.Filter{{Name: sdk.String("tag-key"), Values: []string{key}}}
}

func securityGroup(from *types.SecurityGroup) SecurityGroup {
	return SecurityGroup{
		ID: sdk.ToString(from.GroupId), ARN: sdk.ToString(from.SecurityGroupArn), Name: sdk.ToString(from.GroupName),
		VPC: sdk.ToString(from.VpcId), Account: sdk.ToString(from.OwnerId),
		Tags: tagsOfEC2(from.Tags), Rules: convert(from.IpPermissions, rule),
	}
}

func vpc(from *types.Vpc) VPC {
	found := VPC{ID: sdk.ToString(from.VpcId), Tags: tagsOfEC2(from.Tags)}
	for _, block := range from.CidrBlockAssociationSet {
		if block.CidrBlockState == nil || block.CidrBlockState.State == types.VpcCidrBlockStateCodeAssociated {
			found.CIDRs = append(found.CIDRs, sdk.ToString(block.CidrBlock))
		}
	}
	return found
}

func subnet(from *types.Subnet) Subnet {
	return Subnet{
		ID: sdk.ToString(from.SubnetId), VPC: sdk.ToString(from.VpcId), Zone: sdk.ToString(from.AvailabilityZone),
		ZoneID: sdk.ToString(from.AvailabilityZoneId), Tags: tagsOfEC2(from.Tags),
	}
}

func tagsOfEC2(from []types.Tag) Tags {
	tags := make(Tags, len(from))
	for _, tag := range from {
		tags[sdk.ToString(tag.Key)] = sdk.ToString(tag.Value)
	}
	return tags
}
