package clustercsidriver

import (
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// reporter writes the status of the ClusterCSIDriver, records events and sets metrics.
type reporter struct {
	conditioner
	version string
	writer  *status.Writer
	events  events.EventRecorder
	metrics *metrics
	now     func() time.Time
	// done are the changes since the last event about changes.
	done apply.ChangeSet
	// offered is the last answer of the cloud.
	offered offers
}

// reset drops the state of one ClusterCSIDriver.
func (r *reporter) reset() {
	r.failures, r.rollouts, r.waits = &status.Failures{Now: r.now}, &status.Rollouts{Now: r.now}, &status.Waits{Now: r.now}
	r.offered = offers{}
}

// report computes the status and writes the status if it has changed. It returns the time until the requeue.
func (r *reporter) report(ctx context.Context, cr *operatorv1.ClusterCSIDriver, result outcome) (time.Duration, error) {
	wanted, again := r.status(cr, result)
	have := r.own(cr.Status.OperatorStatus)
	stale := r.isStale
	if result.sharesStatus() {
		// Another operator also writes all conditions except the summaries, and two operators would overwrite each other's conditions for ever. So this
		// operator writes only the summaries.
		sums := status.Sums()
		wanted.Conditions, have.Conditions = status.Among(wanted.Conditions, sums...), status.Among(have.Conditions, sums...)
		wanted.Generations, have.Generations, stale = nil, nil, nil
	}
	wanted.Conditions = status.Merge(cr.Status.Conditions, wanted.Conditions, metav1.NewTime(r.now()).Rfc3339Copy())
	r.metrics.observe(r.driver, wanted.Conditions, result)
	r.done = append(r.done, result.changes.Done()...)
	r.emitRollout(cr, result.rolled)
	r.emitOffers(cr, result.seen.config.Cloud)
	wait, err := r.writer.Write(ctx, status.Report{
		Target: apply.Target(openshift.ClusterCSIDriverKind(), cr), Have: &have, Want: &wanted, Conditions: cr.Status.Conditions, Stale: stale,
		Gradual: isProgress(have, wanted) && result.err == nil && len(result.changes.With(apply.Failed)) == 0,
		// The operator writes the start of a removal at once, because it must know after a restart that the removal has begun.
		Urgent: result.removal.removing && reason(have.Conditions, status.Progressing) != removingReason,
	})
	if err == nil && wait == 0 {
		status.LogChanges(ctx, have.Conditions, status.Among(wanted.Conditions, status.Sums()...))
		r.emit(cr, have.Conditions, wanted.Conditions, r.done)
		r.done = nil
	}
	return status.MinRequeue(again, wait), err
}

// isProgress reports whether the wanted status changes only the progress of a roll-out. In that case, the status of each summary condition, the
// observed generation and the version stay the same.
func isProgress(have, wanted operatorv1.OperatorStatus) bool {
	changesSum := slices.ContainsFunc(status.Sums(), func(kind string) bool {
		before, after := status.Find(have.Conditions, kind), status.Find(wanted.Conditions, kind)
		return (before == nil) != (after == nil) || before != nil && before.Status != after.Status
	})
	return !changesSum && reason(wanted.Conditions, status.Progressing) == status.Deploying &&
		have.ObservedGeneration == wanted.ObservedGeneration && have.Version == wanted.Version
}

// isStale reports whether a predecessor left a condition that no operator updates any more.
func (r *reporter) isStale(condition operatorv1.OperatorCondition) bool {
	return slices.Contains(r.driver.LegacyConditions, condition.Type)
}

// status computes the status fields that the operator owns.
func (r *reporter) status(cr *operatorv1.ClusterCSIDriver, result outcome) (operatorv1.OperatorStatus, time.Duration) {
	live := result.live()
	conditions, stable, again := r.conditions(cr, result)
	wanted := operatorv1.OperatorStatus{
		ObservedGeneration: cr.Generation,
		Conditions:         conditions,
		Version:            cr.Status.Version,
	}
	if live.deployment != nil {
		wanted.ReadyReplicas = live.deployment.Status.ReadyReplicas
	}
	if stable > 0 {
		wanted.Generations = []operatorv1.GenerationStatus{{
			Group: "apps", Resource: "daemonsets", Namespace: r.namespace, Name: r.driver.DaemonSet,
			LastGeneration: stable, Hash: string(live.daemonSet.UID),
		}}
	}
	available := status.Find(conditions, status.Available)
	progressing := status.Find(conditions, status.Progressing)
	switch {
	case r.driver.RemovedByState && result.removal.removed && !result.unwanted.remove:
		// After the removal, no operand with an older version is left. The operator reports its version at once, because a cluster update waits for it.
		wanted.Version = r.version
	case result.removal.removed:
		wanted.Version = ""
	case result.seen.disabled.Reason != "":
		wanted.Version = r.version
	case result.complete() && available.Status == operatorv1.ConditionTrue && progressing.Status == operatorv1.ConditionFalse:
		// The operator reports its version only if all operands have that version. Objects that the operator could not apply, or does not own, can be
		// older.
		wanted.Version = r.version
	}
	return wanted, again
}

// own returns the part of a status that this operator writes. It omits conditions and generations of other controllers.
func (r *reporter) own(have operatorv1.OperatorStatus) operatorv1.OperatorStatus {
	own := have
	own.Conditions = slices.DeleteFunc(slices.Clone(have.Conditions), func(one operatorv1.OperatorCondition) bool { return !r.isOwn(one.Type) })
	own.Generations = nil
	if entry := r.ownGeneration(have.Generations); entry != nil {
		own.Generations = []operatorv1.GenerationStatus{*entry}
	}
	return own
}

// isOwn reports whether this controller writes conditions of this type in at least one state of the driver.
func (c conditioner) isOwn(kind string) bool {
	prefix := c.driver.ConditionPrefix
	prefixes := []string{
		"", managementState, configObservation, prefix + controlPlaneObjects, prefix + guestObjects,
		prefix + controllerService, prefix + nodeService, prefix + cloudService,
	}
	for _, credentials := range c.driver.Credentials {
		prefixes = append(prefixes, credentials.Condition)
	}
	return kind == prefix+derived.Disabled || slices.ContainsFunc(status.Sums(), func(end string) bool {
		start, found := strings.CutSuffix(kind, end)
		return found && slices.Contains(prefixes, start)
	})
}

// leftOut returns a text with the optional kinds that the cluster does not serve. The text is empty if the cluster serves all optional kinds.
func leftOut(d driver.Driver, kinds map[schema.GroupKind]bool) string {
	var missing []string
	for kind := range watch.OptionalKinds(d) {
		if !kinds[kind] {
			missing = append(missing, kind.String())
		}
	}
	if len(missing) == 0 {
		return ""
	}
	sort.Strings(missing)
	return "This cluster does not serve " + strings.Join(missing, ", ") + ": the operator leaves out all features that need these kinds. Restart the " +
		"operator after the cluster serves them"
}
