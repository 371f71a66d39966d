package create

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

// nfsPort is the only port on which EFS listens.
const nfsPort = 2049

// cloud has the requests to AWS that a creation needs. No request deletes anything.
type cloud interface {
	aws.Identifier
	aws.Reader
	aws.NetworkReader
	aws.Creator
}

// creation is the state of one call of Run.
type creation struct {
	Options
	cloud cloud
}

// Run creates the missing objects of a share, and waits until they are available. If all objects exist, Run changes nothing.
func Run(ctx context.Context, options Options) (Share, error) {
	if err := options.complete(); err != nil {
		return Share{}, err
	}
	client, err := aws.New(ctx, aws.Options{
		Region: options.Region, Config: options.AWS, RequestsPerMinute: options.RequestsPerMinute, MaxBackoff: options.MaxBackoff,
		Timeout: options.RequestTimeout,
	})
	if err != nil {
		return Share{}, fmt.Errorf("connect: %w", err)
	}
	c := &creation{Options: options, cloud: client}
	if err := efscleanup.CheckAccount(ctx, client, options.Account); err != nil {
		return Share{}, err
	}
	where, err := c.findNetwork(ctx)
	if err != nil {
		return Share{}, err
	}
	fileSystem, err := c.fileSystem(ctx)
	if err != nil {
		return Share{}, err
	}
	group, err := c.securityGroup(ctx, where.vpc)
	if err != nil {
		return Share{}, err
	}
	if err := c.waitForFileSystem(ctx, fileSystem); err != nil {
		return Share{}, err
	}
	targets, err := c.mountTargets(ctx, fileSystem.ID, group, where)
	return Share{
		Name: c.Name, FileSystem: fileSystem.ID, Zone: fileSystem.Zone, VPC: where.vpc.ID, SecurityGroup: group, MountTargets: targets,
	}, err
}

// fileSystem finds the file system of the share, or creates it.
func (c *creation) fileSystem(ctx context.Context) (aws.FileSystem, error) {
	found, there, err := c.cloud.FileSystemByToken(ctx, c.token())
	if err != nil {
		return found, fmt.Errorf("find the file system: %w", err)
	}
	if !there {
		found, err = c.cloud.CreateFileSystem(ctx, aws.NewFileSystem{Token: c.token(), Zone: c.Zone, Tags: c.tags()})
		switch {
		case err == nil:
			c.Progress("created file system " + found.ID)
			return found, nil
		case !aws.IsExisting(err):
			return found, fmt.Errorf("create the file system: %w", err)
		}
		// An earlier attempt of this request, or a concurrent run, has created the file system.
		if found, there, err = c.cloud.FileSystemByToken(ctx, c.token()); err != nil || !there {
			return found, fmt.Errorf("AWS says that file system %s exists, but does not list it: run the command again (%w)", c.token(), errors.Join(err))
		}
	}
	switch {
	case !c.made(found.Tags):
		err = usage("file system %s was created for %s, but no longer has its tags; delete it or choose another name", found.ID, c.token())
	case found.Zone != c.Zone:
		err = usage("file system %s exists and is %s, not %s; delete it or choose another name", found.ID, kindOf(found.Zone), kindOf(c.Zone))
	case found.State == aws.StateDeleting || found.State == aws.StateDeleted:
		err = fmt.Errorf("file system %s of this name is being deleted: run the command again when the deletion has finished", found.ID)
	default:
		c.Progress("file system " + found.ID + " exists")
	}
	return found, err
}

func kindOf(zone string) string {
	if zone == "" {
		return "regional"
	}
	return "One Zone in " + zone
}

// securityGroup finds the security group of the share, or creates it. It also makes sure that the group's rules allow NFS from the VPC.
func (c *creation) securityGroup(ctx context.Context, vpc aws.VPC) (string, error) {
	id, err := c.findGroup(ctx, vpc.ID)
	if err != nil {
		return "", err
	}
	if id == "" {
		id, err = c.cloud.CreateSecurityGroup(ctx, aws.NewSecurityGroup{
			Name: c.groupName(), Description: "NFS from the VPC to an EFS file system", VPC: vpc.ID, Tags: c.tags(),
		})
		if aws.IsExisting(err) {
			// An earlier attempt of this request, or a concurrent run, has created the security group.
			if id, err = c.findGroup(ctx, vpc.ID); id == "" && err == nil {
				err = usage("security group %q exists in VPC %s, but lacks the tags of this share; delete it or choose another name", c.groupName(), vpc.ID)
			}
		}
		if err != nil {
			return "", fmt.Errorf("create the security group: %w", err)
		}
		c.Progress("created security group " + id)
	}
	if err := c.cloud.AllowTCP(ctx, id, nfsPort, vpc.CIDRs...); err != nil {
		return "", fmt.Errorf("allow NFS from the VPC: %w", err)
	}
	return id, nil
}

func (c *creation) findGroup(ctx context.Context, vpc string) (string, error) {
	groups, err := c.cloud.SecurityGroups(ctx, efscleanup.MarkerTag)
	if err != nil {
		return "", fmt.Errorf("find the security group: %w", err)
	}
	for _, group := range groups {
		if group.VPC == vpc && group.Name == c.groupName() && c.made(group.Tags) {
			return group.ID, nil
		}
	}
	return "", nil
}

func (c *creation) waitForFileSystem(ctx context.Context, fileSystem aws.FileSystem) error {
	return c.until(ctx, "file system "+fileSystem.ID+" is available", func() (bool, error) {
		found, err := c.cloud.FileSystem(ctx, fileSystem.ID)
		if aws.IsNotFound(err) {
			// AWS is eventually consistent: a new file system may not be found yet.
			return false, nil
		}
		if err == nil && found.State == aws.StateError {
			err = fmt.Errorf("file system %s is in state error, because AWS could not finish its creation; delete it with --delete", fileSystem.ID)
		}
		return found.State == aws.StateAvailable, err
	})
}

// mountTargets creates a mount target in each subnet, and waits until all of them are available. It skips zones that EFS does not support.
func (c *creation) mountTargets(ctx context.Context, fileSystem, group string, where network) ([]string, error) {
	var ready []string
	unsupported := map[string]bool{}
	err := c.until(ctx, "all mount targets of "+fileSystem+" are available", func() (bool, error) {
		ready = nil
		targets, err := c.cloud.MountTargets(ctx, fileSystem)
		if err != nil {
			return false, err
		}
		for _, subnet := range where.subnets {
			if unsupported[subnet.Zone] {
				continue
			}
			at := slices.IndexFunc(targets, func(t aws.MountTarget) bool { return t.Zone == subnet.Zone })
			if at < 0 {
				if err := c.mountTarget(ctx, fileSystem, group, subnet, unsupported); err != nil {
					return false, err
				}
				continue
			}
			switch target := targets[at]; {
			case target.VPC != where.vpc.ID:
				return false, usage("file system %s has mount target %s in VPC %s, not in %s", fileSystem, target.ID, target.VPC, where.vpc.ID)
			case target.State == aws.StateError:
				return false, fmt.Errorf("AWS could not create mount target %s; delete the share with --delete", target.ID)
			case target.State == aws.StateAvailable:
				ready = append(ready, target.ID)
			}
		}
		if len(unsupported) == len(where.subnets) {
			return false, usage("EFS supports no zone of the subnets")
		}
		return len(ready) == len(where.subnets)-len(unsupported), nil
	})
	slices.Sort(ready)
	return ready, err
}

func (c *creation) mountTarget(ctx context.Context, fileSystem, group string, subnet aws.Subnet, unsupported map[string]bool) error {
	target, err := c.cloud.CreateMountTarget(ctx, fileSystem, subnet.ID, group)
	switch {
	case err == nil:
		c.Progress("created mount target " + target.ID + " in " + subnet.Zone)
	case aws.IsExisting(err):
	case aws.IsUnsupportedZone(err):
		unsupported[subnet.Zone] = true
		c.Progress("EFS does not support zone " + subnet.Zone + ", so no mount target was created there")
	default:
		return fmt.Errorf("create a mount target in %s: %w", subnet.Zone, err)
	}
	return nil
}

// WaitError means that the objects were not available in AWS after the time Patience. No request has failed.
type WaitError struct {
	Patience time.Duration
	What     string
}

// Error says what to do.
func (e *WaitError) Error() string {
	return fmt.Sprintf("timed out after %s while waiting until %s: run the command again to wait longer", e.Patience, e.What)
}

// until polls AWS until done returns true.
func (c *creation) until(ctx context.Context, what string, done func() (bool, error)) error {
	for deadline := time.Now().Add(c.Patience); ; {
		ready, err := done()
		if err != nil || ready {
			return err
		}
		if time.Now().After(deadline) {
			return &WaitError{Patience: c.Patience, What: what}
		}
		timer := time.NewTimer(c.Poll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("interrupted while waiting until %s; run the command again: %w", what, ctx.Err())
		case <-timer.C:
		}
	}
}
