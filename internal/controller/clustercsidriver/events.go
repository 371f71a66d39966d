package clustercsidriver

import (
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The reasons of events. An event reports a change, and a condition reports a state.
const (
	eventAvailable      = "DriverAvailable"
	eventUnavailable    = "DriverUnavailable"
	eventDisabled       = "DriverDisabled"
	eventDegraded       = "DriverDegraded"
	eventRecovered      = "DriverRecovered"
	eventUpdated        = "DriverUpdated"
	eventCreated        = "ObjectsCreated"
	eventRestored       = "ObjectsRestored"
	eventRemovalBlocked = "RemovalBlocked"
	eventRemoving       = "DriverRemoving"
	eventRemoved        = "DriverRemoved"
	eventTakingOver     = "TakingOver"
	eventTakenOver      = "TakenOver"
	eventAnotherCopy    = "AnotherCopyWorks"
	eventCanary         = "TryingCanary"
	eventPaused         = "RolloutPaused"
	eventReplaced       = "NodePodsReplaced"
	eventSettingsKept   = "SettingsKept"
	eventTypeAppeared   = "ShareTypeAppeared"
	eventTypeGone       = "ShareTypeGone"
)

// emit records events for the differences between two statuses. While the driver is available, emit also records events about changes of the driver's
// objects.
func (r *reporter) emit(cr *operatorv1.ClusterCSIDriver, before, after []operatorv1.OperatorCondition, changes apply.ChangeSet) {
	if isTrue(before, status.Available) && isTrue(after, status.Available) {
		r.emitChanges(cr, changes)
	}
	r.emitAvailability(cr, before, after)
	// Read the condition of the node service, because the summary condition Progressing can have the reason of another condition.
	kind := r.driver.ConditionPrefix + nodeService + status.Progressing
	if reason(before, kind) == migration.TakingOver && !isTrue(after, kind) {
		r.record(cr, corev1.EventTypeNormal, eventTakenOver, "all nodes have this operator's node pod")
	}
	switch progressing := reason(after, kind); {
	case progressing == reason(before, kind):
	case progressing == nodes.Paused:
		r.record(cr, corev1.EventTypeWarning, eventPaused, status.Find(after, kind).Message)
	case progressing == migration.TakingOver:
		r.record(cr, corev1.EventTypeNormal, eventTakingOver, status.Find(after, kind).Message)
	case progressing == inUseReason:
		r.record(cr, corev1.EventTypeWarning, eventRemovalBlocked, status.Find(after, kind).Message)
	case progressing == removingReason:
		r.record(cr, corev1.EventTypeNormal, eventRemoving, "removing driver "+r.driver.Name)
	}
	switch wasDegraded, isDegraded := isTrue(before, status.Degraded), isTrue(after, status.Degraded); {
	case isDegraded && !wasDegraded:
		r.record(cr, corev1.EventTypeWarning, eventDegraded, status.Find(after, status.Degraded).Message)
	case wasDegraded && !isDegraded:
		r.record(cr, corev1.EventTypeNormal, eventRecovered, "the driver is no longer degraded")
	}
}

// emitRollout reports the steps of a roll-out. It takes the steps from argument "rolled" instead of the status, because a step can begin and end
// between two writes of the status.
func (r *reporter) emitRollout(cr *operatorv1.ClusterCSIDriver, rolled nodes.Progress) {
	if rolled.Canary != "" {
		r.record(cr, corev1.EventTypeNormal, eventCanary, "trying the new node pod on node "+rolled.Canary)
	}
	if rolled.Ended {
		r.record(cr, corev1.EventTypeNormal, eventReplaced, "all nodes have the new node pod")
	}
}

// emitChanges reports changed objects. For a few objects, it sends one event for each object. For many objects, it sends a single event that lists
// the objects in its note. Kubernetes would aggregate many events that differ only in their notes.
func (r *reporter) emitChanges(cr *operatorv1.ClusterCSIDriver, changes apply.ChangeSet) {
	isDrift := func(change apply.Change) bool { return change.Drift }
	isNoDrift := func(change apply.Change) bool { return !change.Drift }
	for _, did := range []struct {
		changes      apply.ChangeSet
		reason, note string
	}{
		{changes.With(apply.Created), eventCreated, "created: "},
		{changes.Where(isDrift), eventRestored, "reverted external changes to: "},
		{changes.With(apply.Configured, apply.Deleted).Where(isNoDrift), eventUpdated, "updated to match the configuration: "},
	} {
		const many = 4
		if len(did.changes) >= many {
			r.record(cr, corev1.EventTypeNormal, did.reason, did.note+status.Shorten(did.changes.Names("")))
			continue
		}
		for _, change := range did.changes {
			related := &unstructured.Unstructured{Object: map[string]any{}}
			related.SetGroupVersionKind(change.Subject.GroupVersionKind)
			related.SetNamespace(change.Subject.Namespace)
			related.SetName(change.Subject.Name)
			r.events.Eventf(cr, related, corev1.EventTypeNormal, did.reason, "Reconcile", "%s", did.note+change.Subject.String())
		}
	}
}

// emitAvailability reports that the driver has become available, unavailable or disabled, or that the operator has removed the driver.
func (r *reporter) emitAvailability(cr *operatorv1.ClusterCSIDriver, before, after []operatorv1.OperatorCondition) {
	disabled := r.driver.ConditionPrefix + derived.Disabled
	wasDisabled, isDisabled := isTrue(before, disabled), isTrue(after, disabled)
	wasAvailable, isAvailable := isTrue(before, status.Available) && !wasDisabled, isTrue(after, status.Available) && !isDisabled
	removed := reason(after, status.Available) == removedReason
	switch {
	case removed && reason(before, status.Available) != removedReason:
		r.record(cr, corev1.EventTypeNormal, eventRemoved, "driver "+r.driver.Name+" is removed")
	case isDisabled && !wasDisabled:
		r.record(cr, corev1.EventTypeNormal, eventDisabled, status.Find(after, disabled).Message)
	case !wasAvailable && isAvailable:
		r.record(cr, corev1.EventTypeNormal, eventAvailable, "driver "+r.driver.Name+" is available")
	case wasAvailable && !isAvailable && !removed && reason(after, status.Progressing) != removingReason:
		r.record(cr, corev1.EventTypeWarning, eventUnavailable, status.Find(after, status.Available).Message)
	}
}

// record records one event on the ClusterCSIDriver, in namespace default.
func (r *reporter) record(cr *operatorv1.ClusterCSIDriver, kind, reason, note string) {
	r.events.Eventf(cr, nil, kind, reason, "Reconcile", "%s", status.Clip(note))
}

func isTrue(conditions []operatorv1.OperatorCondition, kind string) bool {
	found := status.Find(conditions, kind)
	return found != nil && found.Status == operatorv1.ConditionTrue
}

func reason(conditions []operatorv1.OperatorCondition, kind string) string {
	if found := status.Find(conditions, kind); found != nil {
		return found.Reason
	}
	return ""
}
