package fakeaws

import (
	"context"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Instance starts an instance in a subnet, with security groups.
func (c *Cloud) Instance(subnet string, groups ...string) string {
	c.T.Helper()
	return c.once(func(ctx context.Context) (string, error) {
		made, err := c.EC2.RunInstances(ctx, &ec2.RunInstancesInput{
			ImageId: sdk.String("ami-12c6146b"), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), SubnetId: &subnet, SecurityGroupIds: groups,
		}, onceEC2)
		if err != nil {
			return "", err
		}
		return *made.Instances[0].InstanceId, nil
	}, func(ctx context.Context) (string, error) {
		found, err := c.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: filters("subnet-id", subnet)})
		if err != nil || len(found.Reservations) == 0 {
			return "", err
		}
		return *found.Reservations[0].Instances[0].InstanceId, nil
	})
}

// PrefixList makes a managed prefix list.
func (c *Cloud) PrefixList(name string, cidrs ...string) string {
	c.T.Helper()
	var entries []ec2types.AddPrefixListEntry
	for _, cidr := range cidrs {
		entries = append(entries, ec2types.AddPrefixListEntry{Cidr: sdk.String(cidr)})
	}
	return c.once(func(ctx context.Context) (string, error) {
		made, err := c.EC2.CreateManagedPrefixList(ctx, &ec2.CreateManagedPrefixListInput{
			AddressFamily: sdk.String("IPv4"), MaxEntries: sdk.Int32(10), PrefixListName: &name, Entries: entries,
		}, onceEC2)
		if err != nil {
			return "", err
		}
		return *made.PrefixList.PrefixListId, nil
	}, func(ctx context.Context) (string, error) {
		found, err := c.EC2.DescribeManagedPrefixLists(ctx, &ec2.DescribeManagedPrefixListsInput{Filters: filters("prefix-list-name", name)})
		if err != nil || len(found.PrefixLists) == 0 {
			return "", err
		}
		return *found.PrefixLists[0].PrefixListId, nil
	})
}
