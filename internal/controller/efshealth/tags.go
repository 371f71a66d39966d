package efshealth

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

const (
	// batch is how many access points get their tags before anything else is looked at, and batchTimeout how long that may take.
	batch        = 50
	batchTimeout = time.Minute
	// tagRetry and tagRetryMost are the pauses after what AWS has refused, which double.
	tagRetry     = 30 * time.Second
	tagRetryMost = 10 * time.Minute
	// mostFailures is after how many of a batch it is left: the next ones would fail as well.
	mostFailures = 5

	untagAction = "elasticfilesystem:UntagResource"
)

// tagger is what is remembered of bringing tags.
type tagger struct {
	// after is when to try again after a failure, pause how long the last pause was, problem why.
	after   time.Time
	pause   time.Duration
	problem string
	// failed are the access points that could not be brought up to date, denied the IAM actions that the last try lacked.
	failed map[string]bool
	denied denials
	// obsolete are the keys to take off, since is when the first of them was found.
	obsolete []string
	since    time.Time
}

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
	// AccessPointTags are the keys that were brought to access points. Keys that the Infrastructure no longer has must go.
	AccessPointTags []string `json:"accessPointTags,omitempty"`
}

// bringTags gives the access points of this cluster the tags of the Infrastructure, and takes off its previous ones. Others'
// access points and tags are left alone. A few are done at a time.
func (r *Reconciler) bringTags(ctx context.Context, cr *operatorv1.ClusterCSIDriver, cloud Cloud, wanted aws.Tags) (tagging, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	before, keys := r.observedIn(cr), slices.Sorted(maps.Keys(wanted))
	var obsolete []string
	for _, key := range before {
		if _, is := wanted[key]; !is {
			obsolete = append(obsolete, key)
		}
	}
	if !slices.Equal(obsolete, r.tags.obsolete) {
		r.tags.obsolete, r.tags.since = obsolete, r.Now()
	}
	all := slices.Concat(keys, obsolete)
	slices.Sort(all)
	if !slices.Equal(all, before) {
		// Should the operator be ended, the next one must know what to take off.
		if err := r.remember(ctx, cr, all); err != nil {
			return tagging{}, err
		}
	}
	progress := r.tagSome(ctx, cloud, r.outdated(wanted, all))
	if progress.outdated == 0 && len(obsolete) > 0 && r.seen.complete && r.seen.at.Sub(r.tags.since) >= atMost {
		// By now the driver makes none with these tags, and none has them.
		return progress, r.remember(ctx, cr, keys)
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
			if has[r.DriverTag] != "true" {
				// No role may change it: the policy asks for that tag.
				continue
			}
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
		if r.tags.failed[a.id] != r.tags.failed[b.id] {
			return map[bool]int{false: -1, true: 1}[r.tags.failed[a.id]]
		}
		return strings.Compare(a.id, b.id)
	})
	return work
}

// tagSome does a batch of the work. It stops at what will not work for the next access point either. Without the right to take tags off,
// which older roles lack, the new ones are set all the same.
func (r *Reconciler) tagSome(ctx context.Context, cloud Cloud, work []change) tagging {
	t, left := &r.tags, tagging{outdated: len(work)}
	if wait := t.after.Sub(r.Now()); wait > 0 && len(work) > 0 {
		left.problem, left.again = t.problem, wait
		return left
	}
	if !r.poller.asking.TryLock() {
		// The end of the poll wakes the trip.
		left.problem = t.problem
		return left
	}
	defer r.poller.asking.Unlock()
	tried := work[:min(batch, len(work))]
	r.poller.answers.Begin()
	done, goesOn := r.tagEach(ctx, cloud, tried)
	left.outdated -= done
	more := goesOn && len(work) > len(tried) && !t.failed[work[len(tried)].id]
	switch {
	case more:
		left.again = time.Second
	case t.problem != "":
		t.pause = min(max(2*t.pause, tagRetry), tagRetryMost)
		t.after, left.problem, left.again = r.Now().Add(t.pause), t.problem, t.pause
	default:
		t.pause, t.after = 0, time.Time{}
	}
	if len(work) > left.outdated {
		ctrl.LoggerFrom(ctx).Info("updated the tags of access points", "done", len(work)-left.outdated, "left", left.outdated)
	}
	return left
}

// tagEach works on each of a batch. It returns how many are done, and whether it makes sense to go on.
func (r *Reconciler) tagEach(ctx context.Context, cloud Cloud, work []change) (done int, goesOn bool) {
	t, failures := &r.tags, 0
	t.denied, t.problem = denials{}, ""
	for _, one := range work {
		isDone, err := r.tagOne(ctx, cloud, one)
		if isDone {
			done++
			delete(t.failed, one.id)
			continue
		}
		t.failed[one.id] = true
		if err == nil {
			continue
		}
		t.problem = err.Error()
		failures++
		action, isDenied := aws.IsAccessDenied(err)
		if isDenied {
			// Which access point was tried is by chance, and must not make the condition flap.
			t.problem = "the credentials lack permission " + action
			t.denied[action] = t.problem
		}
		if mayTag := len(t.denied) == 1 && t.denied[untagAction] != ""; isDenied && !mayTag || failures == mostFailures {
			return done, false
		}
	}
	return done, true
}

// tagOne brings the tags of one access point to what is wanted, and reports whether all was done. What was denied before is not asked again.
func (r *Reconciler) tagOne(ctx context.Context, cloud Cloud, one change) (bool, error) {
	var err error
	if len(one.set) > 0 {
		if err = cloud.Tag(ctx, one.id, one.set); err == nil {
			r.seen.tagged(one.id, one.set, nil)
		}
	}
	if err == nil && len(one.off) > 0 {
		if r.tags.denied[untagAction] != "" {
			return false, nil
		}
		if err = cloud.Untag(ctx, one.id, one.off...); err == nil {
			r.seen.tagged(one.id, nil, one.off)
		}
	}
	switch {
	case aws.IsNotFound(err):
		r.Shares.mutex.Lock()
		defer r.Shares.mutex.Unlock()
		r.seen.gone(one.id)
		return true, nil
	case err != nil:
		return false, fmt.Errorf("update the tags of access point %s: %w", one.id, err)
	default:
		return true, nil
	}
}

// observedIn reads what was kept. Tags that say whose an access point is are never taken off, whatever somebody has written there.
func (r *Reconciler) observedIn(cr *operatorv1.ClusterCSIDriver) []string {
	var kept observed
	if len(cr.Spec.ObservedConfig.Raw) == 0 || json.Unmarshal(cr.Spec.ObservedConfig.Raw, &kept) != nil {
		return nil
	}
	keys := slices.DeleteFunc(kept.AccessPointTags, func(key string) bool {
		return key == r.DriverTag || strings.HasPrefix(key, "kubernetes.io/cluster/") || strings.HasPrefix(strings.ToLower(key), "aws:")
	})
	slices.Sort(keys)
	return slices.Compact(keys)
}

// remember keeps the keys of tags that were, or are about to be, brought to access points.
func (r *Reconciler) remember(ctx context.Context, cr *operatorv1.ClusterCSIDriver, keys []string) error {
	list := make([]any, 0, len(keys))
	for _, key := range keys {
		list = append(list, key)
	}
	patch := apply.Target(openshift.ClusterCSIDriverKind(), cr)
	patch.Object["spec"] = map[string]any{"observedConfig": map[string]any{"accessPointTags": list}}
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(r.owner()), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("record the tag keys of access points: %w", err)
	}
	r.writer.Wrote(patch)
	if cr.Spec.ObservedConfig.Raw, err = json.Marshal(observed{AccessPointTags: keys}); err != nil {
		return fmt.Errorf("record the tag keys of access points: %w", err)
	}
	return nil
}
