package efscleanup

import (
	"context"
	"fmt"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// cloud lists the AWS requests that Run sends.
type cloud interface {
	aws.Identifier
	aws.Reader
	aws.Deleter
	SecurityGroups(ctx context.Context, tagKey string) ([]aws.SecurityGroup, error)
	SecurityGroup(ctx context.Context, id string) (aws.SecurityGroup, error)
}

// cleanup is the state of one call of Run.
type cleanup struct {
	Options
	cloud
	owner
	items map[string]*item
	// denied has the reason why AWS denied the first deletion of a kind. AWS would deny the other deletions of this kind, too.
	denied map[Kind]string
	// hasBegun is true after the first visit, which may have deleted an object.
	hasBegun bool
}

// item is an object of the report, with facts that the report does not show.
type item struct {
	Object
	// share is the value of MarkerTag.
	share string
}

// Run deletes the cluster's objects, or reports what it would delete. A caller can cancel Run at any time and call it again, because Run keeps no
// state outside of AWS. If Run returns an error, the report is partial. If Run can't delete an object, it returns no error. It adds the reason to the
// report, and continues with the other objects.
func Run(ctx context.Context, options Options) (Report, error) {
	report := Report{InfraID: options.InfraID, Account: options.Account, Region: options.Region, DryRun: !options.Yes, Objects: []Object{}}
	if err := options.complete(); err != nil {
		return report, err
	}
	client, err := aws.New(ctx, aws.Options{
		Region: options.Region, Config: options.AWS, RequestsPerMinute: options.RequestsPerMinute, MaxBackoff: options.MaxBackoff,
		Timeout: options.RequestTimeout,
	})
	if err != nil {
		return report, fmt.Errorf("connect: %w", err)
	}
	c := &cleanup{
		Options: options, cloud: client, owner: owner{options.InfraID, options.OwnerTag},
		items: map[string]*item{}, denied: map[Kind]string{},
	}
	err = c.run(ctx)
	for _, found := range c.items {
		report.Objects = append(report.Objects, found.Object)
	}
	sortObjects(report.Objects)
	report.Requests = client.Requests()
	return report, err
}

func (c *cleanup) run(ctx context.Context) error {
	if err := CheckAccount(ctx, c, c.Account); err != nil {
		return err
	}
	if err := c.find(ctx); err != nil {
		return err
	}
	if !c.Yes {
		return nil
	}
	c.hasBegun = true
	for deadline := time.Now().Add(c.Patience); ; {
		if err := c.work(ctx, deadline); err != nil {
			return err
		}
		// The new list, not the responses to deletions, decides which objects are left. If the list still contains an object that Run deleted, Run visits
		// the object again.
		if err := c.find(ctx); err != nil {
			return err
		}
		if !c.unfinished() {
			return nil
		}
		if !c.Wait || time.Now().After(deadline) {
			return c.visit(ctx)
		}
		if err := c.pause(ctx); err != nil {
			return err
		}
	}
}

// work visits the unfinished objects. With Options.Wait, it repeats these visits until no object is unfinished, or until the deadline.
func (c *cleanup) work(ctx context.Context, deadline time.Time) error {
	for {
		if err := c.visit(ctx); err != nil {
			return err
		}
		if !c.unfinished() || !c.Wait || time.Now().After(deadline) {
			return nil
		}
		if err := c.pause(ctx); err != nil {
			return err
		}
	}
}

func (c *cleanup) pause(ctx context.Context) error {
	timer := time.NewTimer(c.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted while waiting for AWS; run the cleanup again: %w", ctx.Err())
	case <-timer.C:
		return nil
	}
}

func (c *cleanup) unfinished() bool {
	for _, found := range c.items {
		if !found.finished() {
			return true
		}
	}
	return false
}

// finished reports whether Run has nothing more to do for the object: it is deleted, refused or failed.
func (i *item) finished() bool { return i.State == Deleted || i.State == Refused || i.State == Failed }

// set changes the state of an object, and reports the change.
func (c *cleanup) set(i *item, state State, reason string) {
	if i.State == state && i.Reason == reason {
		return
	}
	i.State, i.Reason = state, reason
	step := Step{Object: i.Object, Total: len(c.items)}
	for _, found := range c.items {
		if found.finished() {
			step.Done++
		}
	}
	c.Progress(step)
	if i.Kind == FileSystem && (state == Refused || state == Failed) {
		c.keepTargets(i)
	}
}

// keepTargets gives the state of a file system to the unfinished mount targets of this file system.
func (c *cleanup) keepTargets(i *item) {
	for _, target := range c.of(MountTarget) {
		if target.FileSystem != i.ID || target.finished() {
			continue
		}
		reason := fmt.Sprintf("file system %s stays", i.ID)
		if target.State == Deleting {
			reason += "; the deletion of this mount target had already begun"
		}
		c.set(target, i.State, reason)
	}
}
