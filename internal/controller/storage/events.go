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

	// action is the action of all events.
	action = "Reconcile"
)

// emit records events for the differences between two states of the ClusterOperator.
func emit(recorder events.EventRecorder, operator *configv1.ClusterOperator, before, after configv1.ClusterOperatorStatus) {
	var changes []string
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
		if condition.Type == configv1.OperatorDegraded && condition.Status == configv1.ConditionTrue {
			kind = corev1.EventTypeWarning
		}
	}
	if len(changes) > 0 {
		recorder.Eventf(operator, nil, kind, eventStatus, action, "%s", status.Clip(strings.Join(changes, "; ")))
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
		// client-go would count a second event of this reason as a repetition of the first, and lose its note (v0.36.3, tools/events/event_broadcaster.go).
		recorder.Eventf(operator, nil, corev1.EventTypeNormal, eventVersion, action, "%s", status.Clip(strings.Join(versions, "; ")))
	}
}
