package storage

import (
	"cmp"
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The reasons of events. An event reports a change, and a condition reports a state.
const (
	eventCreated      = "ClusterCSIDriverCreated"
	eventCreateFailed = "ClusterCSIDriverCreateFailed"
	eventRemoved      = "DriverRemoved"
	eventStatus       = "OperatorStatusChanged"
	eventVersion      = "OperatorVersionChanged"

	// action is the action of all events except events with reason eventStatus.
	action = "Reconcile"
	// maxAction is the limit of the API server for an action, in bytes (k8s.io/kubernetes v1.36.3, pkg/apis/core/validation/events.go).
	maxAction = 128
)

// emit records events for the differences between two states of the ClusterOperator.
func emit(recorder events.EventRecorder, operator *configv1.ClusterOperator, before, after configv1.ClusterOperatorStatus) {
	var changes, actions []string
	kind := corev1.EventTypeNormal
	for _, condition := range after.Conditions {
		old := status.FindClusterOperator(before.Conditions, condition.Type)
		switch {
		case old == nil:
			changes = append(changes, fmt.Sprintf("%s is %s", condition.Type, condition.Status))
		case old.Status != condition.Status:
			changes = append(changes, fmt.Sprintf("%s changed from %s to %s (%s)", condition.Type, old.Status, condition.Status, condition.Message))
		default:
			continue
		}
		actions = append(actions, fmt.Sprintf("%s=%s", condition.Type, condition.Status))
		if condition.Type == configv1.OperatorDegraded && condition.Status == configv1.ConditionTrue {
			kind = corev1.EventTypeWarning
		}
	}
	if len(changes) > 0 {
		// client-go counts an event that differs only in its note as a repetition, and drops the note (v0.36.3, tools/events/event_broadcaster.go).
		did := strings.Join(actions, ",")
		recorder.Eventf(operator, nil, kind, eventStatus, did[:min(len(did), maxAction)], "%s", status.Clip(strings.Join(changes, "; ")))
	}
	old := map[string]string{}
	for _, version := range before.Versions {
		old[version.Name] = version.Version
	}
	var versions []string
	for _, version := range after.Versions {
		if old[version.Name] != version.Version {
			versions = append(versions, fmt.Sprintf(
				"version of %s changed from %s to %s", version.Name, cmp.Or(old[version.Name], "none yet"), version.Version))
		}
	}
	if len(versions) > 0 {
		// A single event has all versions, because client-go would drop the note of a second event.
		recorder.Eventf(operator, nil, corev1.EventTypeNormal, eventVersion, action, "%s", status.Clip(strings.Join(versions, "; ")))
	}
}
