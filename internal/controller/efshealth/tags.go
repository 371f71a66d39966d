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
	// batch is the number of access points that one reconcile updates. batchTimeout is the time limit for these updates.
	batch        = 50
	batchTimeout = time.Minute
	// tagRetry is the pause after a failure. The pause doubles up to tagRetryMost.
	tagRetry     = 30 * time.Second
	tagRetryMost = 10 * time.Minute
	// mostFailures is the number of failures after which a batch ends, because further updates would probably fail, too.
	mostFailures = 5

	untagAction = "elasticfilesystem:UntagResource"
)

// tagger is the state of tag updates between reconciles.
type tagger struct {
	// after is the time of the next attempt after a failure. pause is the length of the pause. problem is the error.
	after   time.Time
	pause   time.Duration
	problem string
	// failed has the access points that the operator could not update. denied has the IAM actions that the credentials lacked in the last attempt.
	failed map[string]bool
	denied denials
	// obsolete has the tag keys to remove. since is the time at which the operator first saw this set of keys.
	obsolete []string
	since    time.Time
}

// tagging is the progress of tag updates.
type tagging struct {
	// outdated is the number of access points of this cluster whose tags differ from the Infrastructure. problem says why they differ.
	outdated int
	problem  string
	// again is the time until the next batch. It is 0 if no batch is planned.
	again time.Duration
}

// observed is the content of spec.observedConfig of the ClusterCSIDriver.
type observed struct {
	// AccessPointTags are the tag keys that the operator set on access points. The operator removes the tags whose keys the Infrastructure no longer
	// has.
	AccessPointTags []string `json:"accessPointTags,omitempty"`
}

// syncTags sets the tags of the Infrastructure on the access points of this cluster, a batch at a time. It removes tags that the operator set before
// and that the Infrastructure no longer has. It changes neither access points of other owners nor tags that other clients set.
func (r *Reconciler) syncTags(ctx context.Context, cr *operatorv1.ClusterCSIDriver, cloud Cloud, wanted aws.Tags) (tagging, error) {
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
		// The operator records the keys before it sets the tags. After a restart, it must know which tags it set.
		if err := r.recordKeys(ctx, cr, all); err != nil {
			return tagging{}, err
		}
	}
	progress := r.tagBatch(ctx, cloud, r.outdated(wanted, all))
	if progress.outdated == 0 && len(obsolete) > 0 && r.seen.complete && r.seen.at.Sub(r.tags.since) >= shortInterval {
		// No access point has the obsolete tags any more. Enough time has passed that the driver no longer creates access points with these tags.
		return progress, r.recordKeys(ctx, cr, keys)
	}
	return progress, nil
}

// change has the tags to set on an access point, and the tag keys to remove.
type change struct {
	id  string
	set aws.Tags
	off []string
}

// outdated lists the access points whose tags differ from the wanted tags, sorted.
func (r *Reconciler) outdated(wanted aws.Tags, keys []string) []change {
	var work []change
	for _, points := range r.seen.points {
		for id, has := range points.owned {
			if has[r.DriverTag] != "true" {
				// The IAM policy allows changes only to access points with the driver's tag.
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
	// Access points whose last update failed come last, so that they do not block the updates of other access points.
	slices.SortFunc(work, func(a, b change) int {
		if r.tags.failed[a.id] != r.tags.failed[b.id] {
			return map[bool]int{false: -1, true: 1}[r.tags.failed[a.id]]
		}
		return strings.Compare(a.id, b.id)
	})
	return work
}

// tagBatch updates a batch of access points. It stops at an error that would occur again at the next access point. Older roles lack the permission to
// remove tags. Even without that permission, tagBatch sets new tags.
func (r *Reconciler) tagBatch(ctx context.Context, cloud Cloud, work []change) tagging {
	t, left := &r.tags, tagging{outdated: len(work)}
	if wait := t.after.Sub(r.Now()); wait > 0 && len(work) > 0 {
		left.problem, left.again = t.problem, wait
		return left
	}
	if !r.poller.asking.TryLock() {
		// A poll is running. The end of the poll triggers a reconcile.
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

// tagEach updates a batch. It returns the number of updated access points. Result "goesOn" is true if the caller may continue with the next batch.
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
			// The problem does not name the access point, because the name would change the condition at each attempt.
			t.problem = "the credentials lack permission " + action
			t.denied[action] = t.problem
		}
		if mayTag := len(t.denied) == 1 && t.denied[untagAction] != ""; isDenied && !mayTag || failures == mostFailures {
			return done, false
		}
	}
	return done, true
}

// tagOne updates the tags of one access point, and reports whether all its tags are up to date. It does not repeat a denied removal of tags.
func (r *Reconciler) tagOne(ctx context.Context, cloud Cloud, one change) (bool, error) {
	var err error
	if len(one.set) > 0 {
		if err = cloud.Tag(ctx, one.id, one.set); err == nil {
			r.seen.updateTags(one.id, one.set, nil)
		}
	}
	if err == nil && len(one.off) > 0 {
		if r.tags.denied[untagAction] != "" {
			return false, nil
		}
		if err = cloud.Untag(ctx, one.id, one.off...); err == nil {
			r.seen.updateTags(one.id, nil, one.off)
		}
	}
	switch {
	case aws.IsNotFound(err):
		r.Shares.mutex.Lock()
		defer r.Shares.mutex.Unlock()
		r.seen.removePoint(one.id)
		return true, nil
	case err != nil:
		return false, fmt.Errorf("update the tags of access point %s: %w", one.id, err)
	default:
		return true, nil
	}
}

// observedIn returns the keys of access point tags that spec.observedConfig of the ClusterCSIDriver records. It skips the keys of ownership tags,
// because the operator must never remove these tags, even if a user adds their keys to spec.observedConfig.
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

// recordKeys records the keys of the tags that are on access points, or that the operator is about to set.
func (r *Reconciler) recordKeys(ctx context.Context, cr *operatorv1.ClusterCSIDriver, keys []string) error {
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
