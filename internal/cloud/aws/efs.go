package aws

import (
	"context"
	"errors"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
)

// pageSize is the maximum page size of EFS.
const pageSize = 100

// FileSystems lists the account's file systems in the region.
func (c *Client) FileSystems(ctx context.Context) ([]FileSystem, error) {
	pages := efs.NewDescribeFileSystemsPaginator(c.efs, &efs.DescribeFileSystemsInput{MaxItems: sdk.Int32(pageSize)})
	return list(ctx, pages, "elasticfilesystem:DescribeFileSystems", "", func(page *efs.DescribeFileSystemsOutput) []FileSystem {
		return convert(page.FileSystems, fileSystem)
	})
}

// FileSystem reads a file system.
func (c *Client) FileSystem(ctx context.Context, id string) (FileSystem, error) {
	const action = "elasticfilesystem:DescribeFileSystems"
	answer, err := c.efs.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &id})
	if err != nil {
		return FileSystem{}, failed(action, id, err)
	}
	if len(answer.FileSystems) != 1 || sdk.ToString(answer.FileSystems[0].FileSystemId) != id {
		return FileSystem{}, failed(action, id, errors.New("AWS answered with another object: its ID is not the requested one"))
	}
	return fileSystem(&answer.FileSystems[0]), nil
}

// FileSystemByToken finds the file system with a creation token. The second result is false if there is no such file system.
func (c *Client) FileSystemByToken(ctx context.Context, token string) (FileSystem, bool, error) {
	answer, err := c.efs.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{CreationToken: &token})
	if err != nil {
		if err = failed("elasticfilesystem:DescribeFileSystems", token, err); IsNotFound(err) {
			err = nil
		}
		return FileSystem{}, false, err
	}
	for i := range answer.FileSystems {
		if sdk.ToString(answer.FileSystems[i].CreationToken) == token {
			return fileSystem(&answer.FileSystems[i]), true, nil
		}
	}
	return FileSystem{}, false, nil
}

// AccessPoints lists the access points of a file system. If the ID is empty, it lists the access points of all file systems.
func (c *Client) AccessPoints(ctx context.Context, fileSystem string) ([]AccessPoint, error) {
	input := &efs.DescribeAccessPointsInput{MaxResults: sdk.Int32(pageSize)}
	if fileSystem != "" {
		input.FileSystemId = &fileSystem
	}
	pages := efs.NewDescribeAccessPointsPaginator(c.efs, input)
	return list(ctx, pages, "elasticfilesystem:DescribeAccessPoints", fileSystem, func(page *efs.DescribeAccessPointsOutput) []AccessPoint {
		return convert(page.AccessPoints, accessPoint)
	})
}

// AccessPoint reads an access point.
func (c *Client) AccessPoint(ctx context.Context, id string) (AccessPoint, error) {
	const action = "elasticfilesystem:DescribeAccessPoints"
	answer, err := c.efs.DescribeAccessPoints(ctx, &efs.DescribeAccessPointsInput{AccessPointId: &id})
	if err != nil {
		return AccessPoint{}, failed(action, id, err)
	}
	if len(answer.AccessPoints) != 1 || sdk.ToString(answer.AccessPoints[0].AccessPointId) != id {
		return AccessPoint{}, failed(action, id, errors.New("AWS answered with another object: its ID is not the requested one"))
	}
	return accessPoint(&answer.AccessPoints[0]), nil
}

// MountTargets lists the mount targets of a file system.
func (c *Client) MountTargets(ctx context.Context, fileSystem string) ([]MountTarget, error) {
	pages := efs.NewDescribeMountTargetsPaginator(c.efs, &efs.DescribeMountTargetsInput{
		FileSystemId: &fileSystem, MaxItems: sdk.Int32(pageSize),
	})
	return list(ctx, pages, "elasticfilesystem:DescribeMountTargets", fileSystem, func(page *efs.DescribeMountTargetsOutput) []MountTarget {
		return convert(page.MountTargets, mountTarget)
	})
}

// DeleteAccessPoint deletes an access point. The data of the file system stays.
func (c *Client) DeleteAccessPoint(ctx context.Context, id string) error {
	_, err := c.efs.DeleteAccessPoint(ctx, &efs.DeleteAccessPointInput{AccessPointId: &id})
	return failedIf("elasticfilesystem:DeleteAccessPoint", id, err)
}

// DeleteMountTarget starts the deletion of a mount target. Mounts that use this mount target lose their connection.
func (c *Client) DeleteMountTarget(ctx context.Context, id string) error {
	_, err := c.efs.DeleteMountTarget(ctx, &efs.DeleteMountTargetInput{MountTargetId: &id})
	return failedIf("elasticfilesystem:DeleteMountTarget", id, err)
}

// DeleteFileSystem starts the deletion of a file system and all of its data.
func (c *Client) DeleteFileSystem(ctx context.Context, id string) error {
	_, err := c.efs.DeleteFileSystem(ctx, &efs.DeleteFileSystemInput{FileSystemId: &id})
	return failedIf("elasticfilesystem:DeleteFileSystem", id, err)
}

// CreateFileSystem starts the creation of a file system.
func (c *Client) CreateFileSystem(ctx context.Context, wanted NewFileSystem) (FileSystem, error) {
	input := &efs.CreateFileSystemInput{
		CreationToken: &wanted.Token, Encrypted: sdk.Bool(true), PerformanceMode: types.PerformanceModeGeneralPurpose, Tags: efsTags(wanted.Tags),
		// AWS backs up One Zone file systems by default, and these backups would outlive the file systems.
		Backup: sdk.Bool(false),
	}
	if wanted.Zone != "" {
		input.AvailabilityZoneName = &wanted.Zone
	}
	answer, err := c.efs.CreateFileSystem(ctx, input)
	if err != nil {
		return FileSystem{}, failed("elasticfilesystem:CreateFileSystem", wanted.Token, err)
	}
	return FileSystem{
		ID: sdk.ToString(answer.FileSystemId), ARN: sdk.ToString(answer.FileSystemArn), CreationToken: sdk.ToString(answer.CreationToken),
		State: string(answer.LifeCycleState), Account: sdk.ToString(answer.OwnerId), Zone: sdk.ToString(answer.AvailabilityZoneName),
		ZoneID: sdk.ToString(answer.AvailabilityZoneId), Encrypted: sdk.ToBool(answer.Encrypted), Tags: tagsOfEFS(answer.Tags),
	}, nil
}

// CreateMountTarget starts the creation of a mount target.
func (c *Client) CreateMountTarget(ctx context.Context, fileSystem, subnet string, securityGroups ...string) (MountTarget, error) {
	target, err := c.efs.CreateMountTarget(ctx, &efs.CreateMountTargetInput{
		FileSystemId: &fileSystem, SubnetId: &subnet, SecurityGroups: securityGroups,
	})
	if err != nil {
		return MountTarget{}, failed("elasticfilesystem:CreateMountTarget", fileSystem+" in "+subnet, err)
	}
	return MountTarget{
		ID: sdk.ToString(target.MountTargetId), FileSystem: fileSystem, Subnet: subnet, VPC: sdk.ToString(target.VpcId),
		State: string(target.LifeCycleState), Zone: sdk.ToString(target.AvailabilityZoneName), ZoneID: sdk.ToString(target.AvailabilityZoneId),
		Address: sdk.ToString(target.IpAddress),
	}, nil
}

func fileSystem(from *types.FileSystemDescription) FileSystem {
	var bytes int64
	if from.SizeInBytes != nil {
		bytes = from.SizeInBytes.Value
	}
	return FileSystem{
		Bytes: bytes,
		ID:    sdk.ToString(from.FileSystemId), ARN: sdk.ToString(from.FileSystemArn), CreationToken: sdk.ToString(from.CreationToken),
		State: string(from.LifeCycleState), Account: sdk.ToString(from.OwnerId), Zone: sdk.ToString(from.AvailabilityZoneName),
		ZoneID: sdk.ToString(from.AvailabilityZoneId), Encrypted: sdk.ToBool(from.Encrypted), MountTargets: int(from.NumberOfMountTargets),
		Tags: tagsOfEFS(from.Tags),
	}
}

func accessPoint(from *types.AccessPointDescription) AccessPoint {
	point := AccessPoint{
		ID: sdk.ToString(from.AccessPointId), ARN: sdk.ToString(from.AccessPointArn), FileSystem: sdk.ToString(from.FileSystemId),
		State: string(from.LifeCycleState), Account: sdk.ToString(from.OwnerId), Tags: tagsOfEFS(from.Tags),
	}
	if from.RootDirectory != nil {
		point.Path = sdk.ToString(from.RootDirectory.Path)
	}
	return point
}

func mountTarget(from *types.MountTargetDescription) MountTarget {
	return MountTarget{
		ID: sdk.ToString(from.MountTargetId), FileSystem: sdk.ToString(from.FileSystemId), Subnet: sdk.ToString(from.SubnetId),
		VPC: sdk.ToString(from.VpcId), State: string(from.LifeCycleState), Zone: sdk.ToString(from.AvailabilityZoneName),
		ZoneID: sdk.ToString(from.AvailabilityZoneId), Address: sdk.ToString(from.IpAddress), IPv6: sdk.ToString(from.Ipv6Address),
	}
}

func tagsOfEFS(from []types.Tag) Tags {
	tags := make(Tags, len(from))
	for _, tag := range from {
		tags[sdk.ToString(tag.Key)] = sdk.ToString(tag.Value)
	}
	return tags
}

func efsTags(from Tags) []types.Tag {
	tags := make([]types.Tag, 0, len(from))
	for _, key := range from.keys() {
		tags = append(tags, types.Tag{Key: sdk.String(key), Value: sdk.String(from[key])})
	}
	return tags
}
