package leftovers

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

// deleter deletes the items of a plan. The command creates it only after the user's confirmation.
type deleter struct {
	cluster client.Client
	// cloud is the client for AWS. It is nil without --account.
	cloud   cloud
	infraID string
	drivers map[string]bool
	// used is a function that reads again which access points the cluster uses. If it returns an error, deleter deletes no access points, and reports
	// this error for each of them.
	used func(ctx context.Context) (map[string]bool, error)
}

// all deletes the items in order. If one deletion fails, it continues with the next item.
func (d deleter) all(ctx context.Context, items []Item, bar *plugin.Progress) (deleted int, err error) {
	var failures []error
	used, unknown := d.used(ctx)
	for i, item := range items {
		if ctx.Err() != nil {
			failures = append(failures, fmt.Errorf("interrupted after %d of %d deletions: run the command again", i, len(items)))
			break
		}
		step := plugin.Step{Done: i + 1, Total: len(items), What: item.Kind + " " + item.Name, State: "deleted"}
		if err := d.one(ctx, item, used, unknown); err != nil {
			step.State, step.Problem = "failed: "+err.Error(), true
			failures = append(failures, fmt.Errorf("%s %s: %w", item.Kind, item.Name, err))
		} else {
			deleted++
		}
		bar.Step(step)
	}
	bar.End()
	return deleted, errors.Join(failures...)
}

// one reads an object again, and deletes it if it is still a leftover.
func (d deleter) one(ctx context.Context, item Item, used map[string]bool, unknown error) error {
	switch {
	case item.Kind == accessPoint && unknown != nil:
		return unknown
	case item.Kind == accessPoint && used[item.Name]:
		return errors.New("kept, because it came into use after it was listed")
	case item.Kind == accessPoint:
		return d.accessPoint(ctx, item.Name)
	}
	pv := &corev1.PersistentVolume{}
	err := d.cluster.Get(ctx, client.ObjectKey{Name: item.Name}, pv)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("read it again: %w", err)
	case err != nil:
		return nil
	}
	if now, left := volumeItem(pv, d.drivers); !left || now.Kept != "" || pv.UID != item.uid {
		return errors.New("kept, because it changed after it was listed: run the command again")
	}
	exactly := client.Preconditions{UID: &pv.UID, ResourceVersion: &pv.ResourceVersion}
	if err := d.cluster.Delete(ctx, pv, exactly); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete it: %w", err)
	}
	return nil
}

// accessPoint deletes an access point if its tags still name the cluster as the owner.
func (d deleter) accessPoint(ctx context.Context, id string) error {
	point, err := d.cloud.AccessPoint(ctx, id)
	switch {
	case aws.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read it again: %w", err)
	}
	if refusal := efscleanup.Refusal(d.infraID, point.Tags); refusal != "" {
		return errors.New("kept: " + refusal)
	}
	if err := d.cloud.DeleteAccessPoint(ctx, id); err != nil && !aws.IsNotFound(err) {
		return fmt.Errorf("delete it: %w", err)
	}
	return nil
}
