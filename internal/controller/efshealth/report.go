package efshealth

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// mostListed limits the number of findings in the message of a condition.
const mostListed = 10

// report writes the conditions if they have changed, and emits events for new findings. It returns the time until the next reconcile, or 0 if no
// reconcile is needed.
func (r *Reconciler) report(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found []finding) (time.Duration, error) {
	wait, err := r.writeConditions(ctx, cr, r.conditions(cr, found))
	if err != nil || wait > 0 {
		return wait, err
	}
	r.emit(cr, found)
	return 0, nil
}

// evaluated reports whether the last poll was able to find this problem. In that case, a problem without a finding does not exist.
func (r *Reconciler) evaluated(one problem) bool {
	answered := r.seen != nil && r.seen.systems != nil
	switch one {
	case cloudUnreachable, permissionMissing, optionalPermissionMissing:
		return r.seen != nil
	case mountTargetClosed:
		return answered && r.seen.network != nil
	case mountTargetMissing:
		return answered && r.denied["elasticfilesystem:DescribeMountTargets"] == ""
	case accessPointMissing, accessPointsNearLimit, accessPointsUnused, accessPointTagsOutdated:
		return answered && r.denied["elasticfilesystem:DescribeAccessPoints"] == ""
	default:
		return answered
	}
}

// conditions returns a condition for each problem. Until AWS first answers after the start, the previous conditions stay. If the credentials can't
// read a resource, the condition about that resource is absent.
func (r *Reconciler) conditions(cr *operatorv1.ClusterCSIDriver, found []finding) []operatorv1.OperatorCondition {
	sorted := map[problem][]string{}
	for _, one := range found {
		sorted[one.problem] = append(sorted[one.problem], one.message)
	}
	var all []operatorv1.OperatorCondition
	for _, problem := range slices.Sorted(maps.Keys(problems())) {
		messages := sorted[problem]
		if more := len(messages) - mostListed; more > 0 {
			messages = append(messages[:mostListed:mostListed], fmt.Sprintf("and %d more", more))
		}
		before := status.Find(cr.Status.Conditions, r.typeOf(problem))
		switch {
		case len(messages) > 0:
			all = append(all, status.Condition(r.typeOf(problem), true, string(problem), strings.Join(messages, "\n")))
		case r.evaluated(problem):
			all = append(all, status.Condition(r.typeOf(problem), false, "", ""))
		case r.seen == nil && r.connection.cloud != nil && before != nil:
			all = append(all, *before)
		}
	}
	return all
}

func (r *Reconciler) typeOf(one problem) string { return r.Driver.ConditionPrefix + string(one) }

// writeConditions writes our conditions if they have changed. It adds the condition about mounts, which does not depend on AWS.
func (r *Reconciler) writeConditions(
	ctx context.Context, cr *operatorv1.ClusterCSIDriver, wanted []operatorv1.OperatorCondition,
) (time.Duration, error) {
	types := []string{r.typeOf(mountsStalled)}
	for one := range problems() {
		types = append(types, r.typeOf(one))
	}
	if r.Reports != nil {
		if stalled := r.Reports.Condition(types[0], status.Find(cr.Status.Conditions, types[0])); stalled != nil {
			wanted = append(slices.Clone(wanted), *stalled)
		}
	}
	target := apply.Target(openshift.ClusterCSIDriverKind(), cr)
	return r.writer.WriteConditions(ctx, target, cr.Status.Conditions, wanted, types)
}

// emit records an event for new findings that no condition reports yet. It also records an event when a problem has no finding any more.
func (r *Reconciler) emit(cr *operatorv1.ClusterCSIDriver, found []finding) {
	is, news, worth := map[finding]bool{}, map[problem][]string{}, problems()
	resolved := maps.Clone(worth)
	for _, one := range found {
		is[one.key()] = true
		delete(resolved, one.problem)
		before := status.Find(cr.Status.Conditions, r.typeOf(one.problem))
		if !r.emitted[one.key()] && !isIn(before, one) {
			news[one.problem] = append(news[one.problem], one.message)
		}
	}
	for _, problem := range slices.Sorted(maps.Keys(news)) {
		kind := corev1.EventTypeNormal
		if worth[problem] {
			kind = corev1.EventTypeWarning
		}
		r.recordEvent(cr, kind, string(problem), strings.Join(news[problem], "; "))
	}
	for _, problem := range slices.Sorted(maps.Keys(resolved)) {
		before := status.Find(cr.Status.Conditions, r.typeOf(problem))
		if before != nil && before.Status == operatorv1.ConditionTrue && r.evaluated(problem) {
			r.recordEvent(cr, corev1.EventTypeNormal, string(problem)+"Mended", "the problem is resolved")
		}
	}
	r.emitted = is
}

// isIn reports whether a condition already contains a finding, even with other numbers.
func isIn(condition *operatorv1.OperatorCondition, one finding) bool {
	if condition == nil || condition.Status != operatorv1.ConditionTrue {
		return false
	}
	object := strings.TrimPrefix(one.object, "PersistentVolume/")
	return slices.ContainsFunc(strings.Split(condition.Message, "\n"), func(line string) bool {
		return line == one.message || one.fileSystem != "" && strings.Contains(line, one.fileSystem) && strings.Contains(line, object)
	})
}

func (r *Reconciler) recordEvent(cr *operatorv1.ClusterCSIDriver, kind, reason, note string) {
	r.Recorder.Eventf(cr, nil, kind, reason, "LookAtAWS", "%s", status.Clip(note))
}

// owner returns the field manager of these conditions. The ClusterCSIDriver controller writes the driver's conditions with another field manager.
func (r *Reconciler) owner() string { return r.Driver.Operator + "-filesystem" }
