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

// An event tells that something happened; a condition, that something is so. The reasons of the events:
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

// emit records events for what differs between two statuses, and for what was done to a driver that was available.
func (r *reporter) emit(cr *operatorv1.ClusterCSIDriver, before, after []operatorv1.OperatorCondition, changes apply.ChangeSet) {
	if isTrue(before, status.Available) && isTrue(after, status.Available) {
		r.emitChanges(cr, changes)
	}
	r.emitAvailability(cr, before, after)
	// The condition of the nodes, as the sum may hold other reasons as well.
	kind := r.driver.ConditionPrefix + nodeService + status.Progressing
	if reason(before, kind) == migration.TakingOver && !isTrue(after, kind) {
		r.say(cr, corev1.EventTypeNormal, eventTakenOver, "all nodes have a pod of this operator")
	}
	switch progressing := reason(after, kind); {
	case progressing == reason(before, kind):
	case progressing == nodes.Paused:
		r.say(cr, corev1.EventTypeWarning, eventPaused, status.Find(after, kind).Message)
	case progressing == migration.TakingOver:
		r.say(cr, corev1.EventTypeNormal, eventTakingOver, status.Find(after, kind).Message)
	case progressing == inUseReason:
		r.say(cr, corev1.EventTypeWarning, eventRemovalBlocked, status.Find(after, kind).Message)
	case progressing == removingReason:
		r.say(cr, corev1.EventTypeNormal, eventRemoving, "removing driver "+r.driver.Name)
	}
	switch wasDegraded, isDegraded := isTrue(before, status.Degraded), isTrue(after, status.Degraded); {
	case isDegraded && !wasDegraded:
		r.say(cr, corev1.EventTypeWarning, eventDegraded, status.Find(after, status.Degraded).Message)
	case wasDegraded && !isDegraded:
		r.say(cr, corev1.EventTypeNormal, eventRecovered, "what was wrong has gone")
	}
}

// emitRollout reports what happened in a roll-out of node pods: it may be over before the next status is written.
func (r *reporter) emitRollout(cr *operatorv1.ClusterCSIDriver, rolled nodes.Progress) {
	if rolled.Canary != "" {
		r.say(cr, corev1.EventTypeNormal, eventCanary, "the new node pod is tried on node "+rolled.Canary)
	}
	if rolled.Ended {
		r.say(cr, corev1.EventTypeNormal, eventReplaced, "all nodes have the new node pod")
	}
}

// emitChanges reports what was done to the objects. Each is the related object of an event of its own, unless there are many:
// events that differ in nothing but their note are counted as one.
func (r *reporter) emitChanges(cr *operatorv1.ClusterCSIDriver, changes apply.ChangeSet) {
	isDrift := func(change apply.Change) bool { return change.Drift }
	isNoDrift := func(change apply.Change) bool { return !change.Drift }
	for _, did := range []struct {
		changes      apply.ChangeSet
		reason, note string
	}{
		{changes.With(apply.Created), eventCreated, "created: "},
		{changes.Where(isDrift), eventRestored, "undone what somebody changed: "},
		{changes.With(apply.Configured, apply.Deleted).Where(isNoDrift), eventUpdated, "changed to follow the configuration: "},
	} {
		const many = 4
		if len(did.changes) >= many {
			r.say(cr, corev1.EventTypeNormal, did.reason, did.note+status.Shorten(did.changes.Names("")))
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

// emitAvailability reports that the driver came, went, or was removed.
func (r *reporter) emitAvailability(cr *operatorv1.ClusterCSIDriver, before, after []operatorv1.OperatorCondition) {
	disabled := r.driver.ConditionPrefix + derived.Disabled
	wasDisabled, isDisabled := isTrue(before, disabled), isTrue(after, disabled)
	wasAvailable, isAvailable := isTrue(before, status.Available) && !wasDisabled, isTrue(after, status.Available) && !isDisabled
	removed := reason(after, status.Available) == removedReason
	switch {
	case removed && reason(before, status.Available) != removedReason:
		r.say(cr, corev1.EventTypeNormal, eventRemoved, "driver "+r.driver.Name+" is removed")
	case isDisabled && !wasDisabled:
		r.say(cr, corev1.EventTypeNormal, eventDisabled, status.Find(after, disabled).Message)
	case !wasAvailable && isAvailable:
		r.say(cr, corev1.EventTypeNormal, eventAvailable, "driver "+r.driver.Name+" is available")
	case wasAvailable && !isAvailable && !removed && reason(after, status.Progressing) != removingReason:
		r.say(cr, corev1.EventTypeWarning, eventUnavailable, status.Find(after, status.Available).Message)
	}
}

// say records one event on the ClusterCSIDriver. Those of a cluster-scoped object are in namespace default.
func (r *reporter) say(cr *operatorv1.ClusterCSIDriver, kind, reason, note string) {
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
