package filesystem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/aws"
)

const (
	// batch is how many access points get their tags before anything else is looked at.
	batch = 50
	// tagRetry and tagRetryMost are the pauses after what AWS has refused, which double.
	tagRetry     = 30 * time.Second
	tagRetryMost = 10 * time.Minute
	// mostFailures is after how many of a batch it is left: the next ones would fail as well.
	mostFailures = 5
)

// tagging is how far the tags of access points are.
type tagging struct {
	// outdated is how many access points of this cluster have other tags than the Infrastructure says, problem why.
	outdated int
	problem  string
	// again is when to go on.
	again time.Duration
}

// observed is what the operator keeps in spec.observedConfig of the ClusterCSIDriver.
type observed struct {
	// AccessPointTags are the keys that were brought to access points: those that the Infrastructure no longer has must go.
	AccessPointTags []string `json:"accessPointTags,omitempty"`
}

// bringTags gives the access points of this cluster the tags of the Infrastructure, and takes off those that it had before. Others'
// access points and tags are left alone. A few are done at a time.
func (r *Reconciler) bringTags(ctx context.Context, cr *operatorv1.ClusterCSIDriver, cloud Cloud, wanted aws.Tags) (tagging, error) {
	former := observedIn(cr)
	all := slices.Sorted(maps.Keys(wanted))
	for _, key := range former {
		if _, is := wanted[key]; !is {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	if !slices.Equal(all, former) {
		// Should the operator be ended, the next one must know what to take off.
		if err := r.remember(ctx, cr, all); err != nil {
			return tagging{}, err
		}
	}
	work := r.outdated(wanted, all)
	progress := r.tagSome(ctx, cloud, work)
	done := slices.Sorted(maps.Keys(wanted))
	if progress.outdated == 0 && !slices.Equal(done, all) {
		return progress, r.remember(ctx, cr, done)
	}
	return progress, nil
}

// change is what an access point's tags lack and have too much.
type change struct {
	id  string
	set aws.Tags
	off []string
}

// outdated lists the access points whose tags differ, sorted.
func (r *Reconciler) outdated(wanted aws.Tags, keys []string) []change {
	var work []change
	for _, points := range r.seen.points {
		for id, has := range points.owned {
			one := change{id: id, set: aws.Tags{}}
			for _, key := range keys {
				value, is := wanted[key]
				before, had := has[key]
				switch {
				case is && (!had || before != value):
					one.set[key] = value
				case !is && had:
					one.off = append(one.off, key)
				}
			}
			if len(one.set) > 0 || len(one.off) > 0 {
				work = append(work, one)
			}
		}
	}
	// What failed before comes last, so that it keeps nothing else from being done.
	slices.SortFunc(work, func(a, b change) int {
		if r.tagFailed[a.id] != r.tagFailed[b.id] {
			return map[bool]int{false: -1, true: 1}[r.tagFailed[a.id]]
		}
		return strings.Compare(a.id, b.id)
	})
	return work
}

// tagSome does a batch of the work. It stops at what will not work for the next access point either.
func (r *Reconciler) tagSome(ctx context.Context, cloud Cloud, work []change) tagging {
	left := tagging{outdated: len(work)}
	if wait := r.tagAfter.Sub(r.Now()); wait > 0 && len(work) > 0 {
		left.problem, left.again = r.tagProblem, wait
		return left
	}
	r.tagDenied = denials{}
	refused, failures := "", 0
	for _, one := range work[:min(batch, len(work))] {
		err := r.tagOne(ctx, cloud, one)
		if err == nil {
			left.outdated--
			continue
		}
		refused = err.Error()
		r.tagFailed[one.id] = true
		failures++
		if action, denied := aws.IsAccessDenied(err); denied {
			// Which access point was tried is by chance, and must not make the condition flap.
			refused, r.tagDenied = "the credentials may not do "+action, denials{action: refused}
		}
		if len(r.tagDenied) > 0 || failures == mostFailures {
			break
		}
	}
	switch {
	case refused != "":
		r.tagPause = min(max(2*r.tagPause, tagRetry), tagRetryMost)
		r.tagAfter, r.tagProblem = r.Now().Add(r.tagPause), refused
		left.problem, left.again = refused, r.tagPause
	case left.outdated > 0:
		left.again = time.Second
	default:
		r.tagPause, r.tagAfter, r.tagFailed = 0, time.Time{}, map[string]bool{}
	}
	if len(work) > left.outdated {
		ctrl.LoggerFrom(ctx).Info("brought tags to access points", "done", len(work)-left.outdated, "left", left.outdated)
	}
	return left
}

// tagOne brings the tags of one access point to what is wanted.
func (r *Reconciler) tagOne(ctx context.Context, cloud Cloud, one change) error {
	var err error
	if len(one.set) > 0 {
		err = cloud.Tag(ctx, one.id, one.set)
	}
	if err == nil && len(one.off) > 0 {
		err = cloud.Untag(ctx, one.id, one.off...)
	}
	for _, points := range r.seen.points {
		has, found := points.owned[one.id]
		switch {
		case !found:
		case aws.IsNotFound(err):
			delete(points.owned, one.id)
			delete(points.ids, one.id)
			return nil
		case err == nil:
			maps.Copy(has, one.set)
			for _, key := range one.off {
				delete(has, key)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("bring tags to access point %s: %w", one.id, err)
	}
	return nil
}

// observedIn reads what was kept.
func observedIn(cr *operatorv1.ClusterCSIDriver) []string {
	var kept observed
	if len(cr.Spec.ObservedConfig.Raw) == 0 || json.Unmarshal(cr.Spec.ObservedConfig.Raw, &kept) != nil {
		return nil
	}
	return kept.AccessPointTags
}

// remember keeps the keys of tags that were, or are about to be, brought to access points.
func (r *Reconciler) remember(ctx context.Context, cr *operatorv1.ClusterCSIDriver, keys []string) error {
	list := make([]any, 0, len(keys))
	for _, key := range keys {
		list = append(list, key)
	}
	patch := patchOf(cr)
	patch.Object["spec"] = map[string]any{"observedConfig": map[string]any{"accessPointTags": list}}
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(r.owner()), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("keep the keys of access points' tags: %w", err)
	}
	r.written = patch.GetResourceVersion()
	cr.Spec.ObservedConfig.Raw, err = json.Marshal(observed{AccessPointTags: keys})
	return errors.Join(err)
}
