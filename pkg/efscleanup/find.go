package efscleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// find lists the cluster's objects, and decides which of them may be deleted.
func (c *cleanup) find(ctx context.Context) error {
	fileSystems, err := c.FileSystems(ctx)
	if err != nil {
		return fmt.Errorf("list file systems: %w", err)
	}
	points, err := c.AccessPoints(ctx, "")
	if err != nil {
		return fmt.Errorf("list access points: %w", err)
	}
	groups, err := c.SecurityGroups(ctx, MarkerTag)
	if err != nil {
		return fmt.Errorf("list security groups: %w", err)
	}
	groups = slices.DeleteFunc(groups, func(g aws.SecurityGroup) bool { return !c.wantsGroup(g) })
	if err := c.checkPlace(fileSystems, points, groups); err != nil {
		return err
	}
	fileSystems = slices.DeleteFunc(fileSystems, func(f aws.FileSystem) bool { return !c.wantsFileSystem(f) })
	listed := map[string]bool{}
	c.noteAccessPoints(fileSystems, points, listed)
	if err := c.noteFileSystems(ctx, fileSystems, points, listed); err != nil {
		return err
	}
	c.noteGroups(groups, listed)
	return c.settle(ctx, listed)
}

// settle handles objects that are missing in the last list of AWS. A list can omit an existing object, so settle first asks AWS for the object by its
// ID. If the deletion of the object has begun, settle does not ask, and counts the object as deleted.
func (c *cleanup) settle(ctx context.Context, listed map[string]bool) error {
	for _, kind := range kinds() {
		for _, known := range c.of(kind) {
			switch {
			case listed[known.ID] || known.State == Refused || known.State == Deleted:
			case known.State == Deleting:
				c.set(known, Deleted, "")
			default:
				there, err := c.exists(ctx, known)
				if err != nil {
					return fmt.Errorf("read %s, which AWS no longer lists: %w", known.ID, err)
				}
				if !there {
					c.set(known, Deleted, "")
				}
			}
		}
	}
	return nil
}

// exists asks AWS for one object by its ID, and reports whether the object exists.
func (c *cleanup) exists(ctx context.Context, i *item) (bool, error) {
	var err error
	switch i.Kind {
	case AccessPoint:
		_, err = c.AccessPoint(ctx, i.ID)
	case FileSystem:
		_, err = c.FileSystem(ctx, i.ID)
	case SecurityGroup:
		_, err = c.SecurityGroup(ctx, i.ID)
	case MountTarget:
		// The mount target does not exist if the list of its file system lacks the mount target, or if AWS does not find the file system.
		var targets []aws.MountTarget
		targets, err = c.MountTargets(ctx, i.FileSystem)
		if err == nil && !slices.ContainsFunc(targets, func(one aws.MountTarget) bool { return one.ID == i.ID }) {
			return false, nil
		}
	}
	if aws.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (c *cleanup) noteAccessPoints(fileSystems []aws.FileSystem, points []aws.AccessPoint, listed map[string]bool) {
	for _, point := range points {
		inOurs := slices.ContainsFunc(fileSystems, func(f aws.FileSystem) bool { return f.ID == point.FileSystem })
		if c.owns(point.Tags) && (c.Share == "" || inOurs) {
			listed[point.ID] = true
			c.note(&item{Object: Object{Kind: AccessPoint, ID: point.ID, Name: point.Tags["Name"], FileSystem: point.FileSystem}}, point.State,
				c.problem(point.Tags))
		}
	}
}

// noteFileSystems adds the file systems to the report. If a file system may be deleted, it also adds the mount targets of this file system.
func (c *cleanup) noteFileSystems(
	ctx context.Context, fileSystems []aws.FileSystem, points []aws.AccessPoint, listed map[string]bool,
) error {
	for _, fileSystem := range fileSystems {
		listed[fileSystem.ID] = true
		c.note(&item{
			Object: Object{Kind: FileSystem, ID: fileSystem.ID, Name: fileSystem.Tags["Name"], Zone: fileSystem.Zone},
			share:  fileSystem.Tags[MarkerTag],
		}, fileSystem.State, c.problemOf(fileSystem, points))
		if c.items[fileSystem.ID].State == Refused {
			continue
		}
		targets, err := c.MountTargets(ctx, fileSystem.ID)
		if err != nil && !aws.IsNotFound(err) {
			return fmt.Errorf("list mount targets: %w", err)
		}
		for _, target := range targets {
			listed[target.ID] = true
			c.noteTarget(target)
		}
	}
	return nil
}

// checkPlace rejects a list with objects of another region or account. In that case, the endpoint is wrong. Run checks all lists before it deletes
// the first object.
func (c *cleanup) checkPlace(fileSystems []aws.FileSystem, points []aws.AccessPoint, groups []aws.SecurityGroup) error {
	var problems []string
	for _, fileSystem := range fileSystems {
		problems = append(problems, outside(fileSystem.ARN, c.Account, c.Region))
	}
	for _, point := range points {
		problems = append(problems, outside(point.ARN, c.Account, c.Region))
	}
	for _, group := range groups {
		// Not every endpoint returns the ARN of a security group.
		arn := cmp.Or(group.ARN, fmt.Sprintf("arn:aws:ec2:%s:%s:security-group/%s", c.Region, group.Account, group.ID))
		problems = append(problems, outside(arn, c.Account, c.Region))
	}
	problem := cmp.Or(problems...)
	switch {
	case problem == "":
		return nil
	case c.hasBegun:
		return errors.New(problem)
	}
	return usage("%s", problem)
}

// wantsFileSystem reports whether Run deletes a file system. Other file systems than that of a share can have its tags: people copy them, and so does
// AWS Backup (StartRestoreJob, CopySourceTagsToRestoredResource).
func (c *cleanup) wantsFileSystem(fileSystem aws.FileSystem) bool {
	ofShare := fileSystem.Tags[MarkerTag] == c.Share && fileSystem.CreationToken == CreationToken(c.InfraID, c.Share)
	return c.owns(fileSystem.Tags) && (c.Share == "" || ofShare)
}

// noteGroups adds the security groups to the report.
func (c *cleanup) noteGroups(groups []aws.SecurityGroup, listed map[string]bool) {
	for _, group := range groups {
		listed[group.ID] = true
		problem := c.problem(group.Tags)
		if problem == "" {
			problem = c.problemOfUser(group.Tags[MarkerTag])
		}
		c.note(&item{Object: Object{Kind: SecurityGroup, ID: group.ID, Name: group.Name}, share: group.Tags[MarkerTag]}, "", problem)
	}
}

// wantsGroup reports whether Run deletes a security group. These are the groups that "efs create" created for the cluster.
func (c *cleanup) wantsGroup(group aws.SecurityGroup) bool {
	marker := group.Tags[MarkerTag]
	return marker != "" && group.Name == GroupName(c.InfraID, marker) && c.owns(group.Tags) && (c.Share == "" || marker == c.Share)
}

// problemOfUser returns a text about a file system that uses the security groups of a share, and that Run can't delete. These groups must then stay,
// too. If there is no such file system, the text is empty.
func (c *cleanup) problemOfUser(share string) string {
	for _, user := range c.of(FileSystem) {
		if user.share == share && (user.State == Refused || user.State == Failed) {
			return fmt.Sprintf("file system %s, which uses this security group, stays", user.ID)
		}
	}
	return ""
}

// note adds a listed object to the report. If the report has the object, note updates its state. If the object counted as deleted, it is
// unfinished again.
func (c *cleanup) note(found *item, state, problem string) {
	known, there := c.items[found.ID]
	if !there {
		known = found
		c.items[found.ID] = known
	}
	switch {
	case known.State == Refused || known.State == Failed:
	case problem != "":
		c.set(known, Refused, problem)
	case gone(state):
		c.set(known, Deleting, "")
	case !there:
		known.State = Planned
	case known.State == Deleted:
		c.set(known, Waiting, "AWS still lists it")
	}
}

func (c *cleanup) noteTarget(target aws.MountTarget) {
	c.note(&item{Object: Object{Kind: MountTarget, ID: target.ID, FileSystem: target.FileSystem, Zone: target.Zone}}, target.State, "")
}

// of lists the objects of a kind, sorted by ID.
func (c *cleanup) of(kind Kind) []*item {
	var found []*item
	for _, candidate := range c.items {
		if candidate.Kind == kind {
			found = append(found, candidate)
		}
	}
	slices.SortFunc(found, func(a, b *item) int { return cmp.Compare(a.ID, b.ID) })
	return found
}
