package filesystem

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/status"
)

// mostTold is how many findings of a kind a condition tells in full.
const mostTold = 10

// report writes the conditions if they are new, and tells of new findings.
func (r *Reconciler) report(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found []finding) error {
	if err := r.writeConditions(ctx, cr, r.conditions(cr, found)); err != nil {
		return err
	}
	r.tell(cr, found)
	return nil
}

// judged tells whether it can be said that there is no such problem.
func (r *Reconciler) judged(one problem) bool {
	answered := r.seen != nil && r.seen.systems != nil
	switch one {
	case cloudUnreachable, permissionMissing, optionalPermissionMissing:
		return r.seen != nil
	case mountTargetMissing:
		return answered && r.denied["elasticfilesystem:DescribeMountTargets"] == ""
	case accessPointMissing, accessPointsNearLimit, accessPointsUnused, accessPointTagsOutdated:
		return answered && r.denied["elasticfilesystem:DescribeAccessPoints"] == ""
	default:
		return answered
	}
}

// conditions say of each problem whether there is one. While AWS has not answered since the start, what was said before stays; what
// the credentials may not see is not said.
func (r *Reconciler) conditions(cr *operatorv1.ClusterCSIDriver, found []finding) []operatorv1.OperatorCondition {
	sorted := map[problem][]string{}
	for _, one := range found {
		sorted[one.problem] = append(sorted[one.problem], one.message)
	}
	var all []operatorv1.OperatorCondition
	for _, problem := range slices.Sorted(maps.Keys(problems())) {
		messages := sorted[problem]
		if more := len(messages) - mostTold; more > 0 {
			messages = append(messages[:mostTold:mostTold], fmt.Sprintf("and %d more", more))
		}
		before := status.Find(cr.Status.Conditions, r.typeOf(problem))
		switch {
		case len(messages) > 0:
			all = append(all, status.Condition(r.typeOf(problem), true, string(problem), strings.Join(messages, "\n")))
		case r.judged(problem):
			all = append(all, status.Condition(r.typeOf(problem), false, "", ""))
		case r.seen == nil && r.connection.cloud != nil && before != nil:
			all = append(all, *before)
		}
	}
	return all
}

func (r *Reconciler) typeOf(one problem) string { return r.Driver.ConditionPrefix + string(one) }

// writeConditions applies our conditions, and only those, if they differ from what the ClusterCSIDriver has.
func (r *Reconciler) writeConditions(ctx context.Context, cr *operatorv1.ClusterCSIDriver, wanted []operatorv1.OperatorCondition) error {
	wanted = status.Merge(cr.Status.Conditions, wanted, metav1.NewTime(r.Now()).Rfc3339Copy())
	var have []operatorv1.OperatorCondition
	for one := range problems() {
		if before := status.Find(cr.Status.Conditions, r.typeOf(one)); before != nil {
			have = append(have, *before)
		}
	}
	slices.SortFunc(have, func(a, b operatorv1.OperatorCondition) int { return cmp.Compare(a.Type, b.Type) })
	if len(have) == 0 && len(wanted) == 0 || reflect.DeepEqual(have, wanted) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&operatorv1.OperatorStatus{Conditions: wanted})
	if err != nil {
		return fmt.Errorf("convert conditions: %w", err)
	}
	patch := patchOf(cr)
	patch.Object["status"] = map[string]any{"conditions": fields["conditions"]}
	if len(wanted) == 0 {
		patch.Object["status"] = map[string]any{}
	}
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(r.owner()), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write conditions of ClusterCSIDriver %s: %w", cr.Name, err)
	}
	r.written, r.writtenAt = patch.GetResourceVersion(), r.Now()
	return nil
}

// tell records an event for each finding that no event and no condition has told of, and one when all of a kind have gone.
func (r *Reconciler) tell(cr *operatorv1.ClusterCSIDriver, found []finding) {
	is, news, worth := map[finding]bool{}, map[problem][]string{}, problems()
	gone := maps.Clone(worth)
	for _, one := range found {
		is[one.key()] = true
		delete(gone, one.problem)
		before := status.Find(cr.Status.Conditions, r.typeOf(one.problem))
		if !r.told[one.key()] && !isIn(before, one) {
			news[one.problem] = append(news[one.problem], one.message)
		}
	}
	for _, problem := range slices.Sorted(maps.Keys(news)) {
		kind := corev1.EventTypeNormal
		if worth[problem] {
			kind = corev1.EventTypeWarning
		}
		r.say(cr, kind, string(problem), strings.Join(news[problem], "; "))
	}
	for _, problem := range slices.Sorted(maps.Keys(gone)) {
		before := status.Find(cr.Status.Conditions, r.typeOf(problem))
		if before != nil && before.Status == operatorv1.ConditionTrue && r.judged(problem) {
			r.say(cr, corev1.EventTypeNormal, string(problem)+"Mended", "what was wrong has gone")
		}
	}
	r.told = is
}

// isIn tells whether a condition tells of a finding, perhaps with other numbers.
func isIn(condition *operatorv1.OperatorCondition, one finding) bool {
	if condition == nil || condition.Status != operatorv1.ConditionTrue {
		return false
	}
	object := strings.TrimPrefix(one.object, "PersistentVolume/")
	return slices.ContainsFunc(strings.Split(condition.Message, "\n"), func(line string) bool {
		return line == one.message || one.fileSystem != "" && strings.Contains(line, one.fileSystem) && strings.Contains(line, object)
	})
}

func (r *Reconciler) say(cr *operatorv1.ClusterCSIDriver, kind, reason, note string) {
	r.Recorder.Eventf(cr, nil, kind, reason, "LookAtAWS", "%s", status.Clip(note))
}

// owner is our field manager: the conditions of the driver itself are written by another.
func (r *Reconciler) owner() string { return r.Driver.Operator + "-filesystem" }

// stale is how long the cache may take to show our own last write. Resource versions go back when etcd is restored from a backup, and
// then it never does.
const stale = 30 * time.Second

// isBehind tells how long to wait for the cache to show our own last write; 0 if it does, or if that was long ago.
func (r *Reconciler) isBehind(cr *operatorv1.ClusterCSIDriver) time.Duration {
	order, err := resourceversion.CompareResourceVersion(cr.ResourceVersion, r.written)
	if r.written == "" || err != nil || order >= 0 {
		return 0
	}
	return max(0, r.writtenAt.Add(stale).Sub(r.Now()))
}

// patchOf starts a server-side apply on this very ClusterCSIDriver; with the UID, it can't make a new one.
func patchOf(cr *operatorv1.ClusterCSIDriver) *unstructured.Unstructured {
	patch := &unstructured.Unstructured{Object: map[string]any{}}
	patch.SetGroupVersionKind(operatorv1.GroupVersion.WithKind("ClusterCSIDriver"))
	patch.SetName(cr.Name)
	patch.SetUID(cr.UID)
	return patch
}
