package efscleanup

import (
	"context"
	"fmt"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// visit visits each unfinished object once, in the order of deletion. It deletes the object if this is possible now.
func (c *cleanup) visit(ctx context.Context) error {
	for _, kind := range kinds() {
		for _, found := range c.of(kind) {
			if found.finished() {
				continue
			}
			if why := c.denied[kind]; why != "" {
				c.set(found, Failed, why)
				continue
			}
			var err error
			switch kind {
			case AccessPoint:
				err = c.visitAccessPoint(ctx, found)
			case FileSystem:
				err = c.visitFileSystem(ctx, found)
			case SecurityGroup:
				err = c.visitGroup(ctx, found)
			case MountTarget:
				// visitFileSystem deletes the mount targets of a file system. Mount targets have no tags, so the tags of the file system decide about their
				// deletion.
			}
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted before everything was deleted; run the cleanup again: %w", ctx.Err())
			}
			c.evaluate(found, err)
		}
	}
	return nil
}

// evaluate sets the state of an object according to the error of the last request.
func (c *cleanup) evaluate(i *item, err error) {
	switch {
	case err == nil:
	case aws.IsNotFound(err):
		c.set(i, Deleted, "")
	case aws.IsInUse(err):
		c.set(i, Waiting, err.Error())
	default:
		reason := err.Error()
		if action, denied := aws.IsAccessDenied(err); denied {
			reason = fmt.Sprintf("the credentials lack permission %s: %v", action, err)
			c.denied[i.Kind] = reason
		}
		c.set(i, Failed, reason)
	}
}

// visitAccessPoint reads the tags of an access point again. If the tags still allow the deletion, it deletes the access point.
func (c *cleanup) visitAccessPoint(ctx context.Context, i *item) error {
	point, err := c.AccessPoint(ctx, i.ID)
	if err != nil {
		return err
	}
	if problem := c.problem(point.Tags); problem != "" {
		c.set(i, Refused, problem)
		return nil
	}
	if gone(point.State) {
		c.set(i, Deleting, "")
		return nil
	}
	if err := c.DeleteAccessPoint(ctx, i.ID); err != nil {
		return err
	}
	// AWS deletes an access point at once, and the list at the end of the run confirms this.
	c.set(i, Deleted, "")
	return nil
}

// visitFileSystem first deletes the mount targets of a file system, and then the file system.
func (c *cleanup) visitFileSystem(ctx context.Context, i *item) error {
	if c.waitsForAccessPoints(i) {
		return nil
	}
	targets, err := c.MountTargets(ctx, i.ID)
	if err != nil && !aws.IsNotFound(err) {
		return err
	}
	if err := c.visitTargets(ctx, i, targets); err != nil || i.finished() {
		return err
	}
	if len(targets) > 0 {
		c.set(i, Waiting, fmt.Sprintf("%d of its mount targets still exist", len(targets)))
		return nil
	}
	if free, err := c.guard(ctx, i); err != nil || !free {
		return err
	}
	if err := c.DeleteFileSystem(ctx, i.ID); err != nil {
		return err
	}
	c.set(i, Deleting, "")
	return nil
}

// waitsForAccessPoints reports whether a file system has access points that are not deleted yet. If an access point was refused, waitsForAccessPoints
// also refuses the file system. Function guard alone is not enough, because it may read an older list.
func (c *cleanup) waitsForAccessPoints(i *item) bool {
	waiting, failed := 0, 0
	for _, point := range c.of(AccessPoint) {
		switch {
		case point.FileSystem != i.ID || point.State == Deleted:
		case point.State == Refused:
			c.set(i, Refused, holds(point.ID, point.Reason))
			return true
		case point.State == Failed:
			failed++
		default:
			waiting++
		}
	}
	switch {
	case failed > 0:
		c.set(i, Failed, fmt.Sprintf("%d of its access points could not be deleted", failed))
	case waiting > 0:
		c.set(i, Waiting, fmt.Sprintf("%d of its access points still exist", waiting))
	}
	return failed+waiting > 0
}

// visitTargets deletes the mount targets of a file system, and adds the deletions to the report.
func (c *cleanup) visitTargets(ctx context.Context, i *item, targets []aws.MountTarget) error {
	there := map[string]bool{}
	for _, target := range targets {
		there[target.ID] = true
		c.noteTarget(target)
	}
	for _, target := range c.of(MountTarget) {
		if target.FileSystem == i.ID && !there[target.ID] {
			c.set(target, Deleted, "")
		}
	}
	for _, target := range targets {
		known := c.items[target.ID]
		if why := c.denied[MountTarget]; why != "" {
			c.set(known, Failed, why)
		}
		if gone(target.State) || known.finished() {
			continue
		}
		if free, err := c.guard(ctx, i); err != nil || !free {
			return err
		}
		err := c.DeleteMountTarget(ctx, target.ID)
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			c.set(known, Deleting, "")
		}
		c.evaluate(known, err)
	}
	for _, target := range targets {
		if known := c.items[target.ID]; known.State == Failed {
			c.set(i, Failed, fmt.Sprintf("mount target %s could not be deleted", target.ID))
		}
	}
	return nil
}

// guard reads the tags of a file system and of its access points again. It reports whether all these tags still allow the deletion of the file
// system.
func (c *cleanup) guard(ctx context.Context, i *item) (bool, error) {
	fileSystem, err := c.FileSystem(ctx, i.ID)
	if err != nil {
		return false, err
	}
	if gone(fileSystem.State) {
		c.set(i, Deleting, "")
		return false, nil
	}
	points, err := c.AccessPoints(ctx, i.ID)
	if err != nil {
		return false, err
	}
	if problem := c.problemOf(fileSystem, points); problem != "" {
		c.set(i, Refused, problem)
		return false, nil
	}
	return true, nil
}

// visitGroup deletes a security group, once all file systems of the group's share are deleted.
func (c *cleanup) visitGroup(ctx context.Context, i *item) error {
	if problem := c.problemOfUser(i.share); problem != "" {
		c.set(i, Refused, problem)
		return nil
	}
	for _, user := range c.of(FileSystem) {
		if user.share == i.share && user.State != Deleted {
			c.set(i, Waiting, fmt.Sprintf("file system %s, which uses this security group, still exists", user.ID))
			return nil
		}
	}
	group, err := c.SecurityGroup(ctx, i.ID)
	if err != nil {
		return err
	}
	if group.Tags[MarkerTag] != i.share {
		c.set(i, Refused, "it does not have the tag "+MarkerTag+"="+i.share)
		return nil
	}
	if problem := c.problem(group.Tags); problem != "" {
		c.set(i, Refused, problem)
		return nil
	}
	if err := c.DeleteSecurityGroup(ctx, i.ID); err != nil {
		return err
	}
	c.set(i, Deleted, "")
	return nil
}
