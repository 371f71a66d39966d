// Package status computes operator conditions from what is in the cluster. The functions are pure. Failures, Rollouts, Waits, Patience and Watchdog
// remember since when something lasts, by a clock that they are given. Writer is the one way to write a status, and writes only what is new.
//
// Conditions are for people: a message says what, where and why. Messages never hold timestamps and come from sorted lists, so that a condition does
// not flap.
package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The condition types that sum up all others; tools that know nothing of the driver read these.
const (
	Available   = "Available"
	Progressing = "Progressing"
	Degraded    = "Degraded"
	Upgradeable = "Upgradeable"
)

const (
	// AsExpected is the reason of a condition that has nothing to report.
	AsExpected = "AsExpected"
	// Deploying is the reason while a roll-out is under way.
	Deploying = "Deploying"
)

// Condition makes one condition. An empty reason becomes AsExpected.
func Condition(kind string, value bool, reason, message string) operatorv1.OperatorCondition {
	state := operatorv1.ConditionFalse
	if value {
		state = operatorv1.ConditionTrue
	}
	return operatorv1.OperatorCondition{Type: kind, Status: state, Reason: cmp.Or(reason, AsExpected), Message: message}
}

// Sums are the types of Sum.
func Sums() []string { return []string{Available, Progressing, Degraded, Upgradeable} }

// Sum adds the conditions Available, Progressing, Degraded and Upgradeable, each the union of the conditions whose types end so. Those that other
// controllers write in the same object count: a sum must not contradict them. The message names the conditions that decide.
func Sum(conditions, others []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	all, counted := conditions, slices.Concat(conditions, others)
	for _, kind := range Sums() {
		union := UnionOf(kind, counted)
		all = append(all, operatorv1.OperatorCondition{Type: kind, Status: union.Status, Reason: union.Reason(), Message: union.problem()})
	}
	return all
}

// Merge gives the conditions to write: wanted, sorted by type, each with the transition time of the old one if its
// status is the same. Old conditions that are not wanted are left out.
func Merge(old, wanted []operatorv1.OperatorCondition, now metav1.Time) []operatorv1.OperatorCondition {
	merged := sorted(wanted)
	for i := range merged {
		merged[i].LastTransitionTime = now
		if before := Find(old, merged[i].Type); before != nil && before.Status == merged[i].Status {
			merged[i].LastTransitionTime = before.LastTransitionTime
		}
	}
	return merged
}

// Replace gives the conditions with one of them replaced by another one of its type.
func Replace(conditions []operatorv1.OperatorCondition, by operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	replaced := append([]operatorv1.OperatorCondition(nil), conditions...)
	if old := Find(replaced, by.Type); old != nil {
		*old = by
	}
	return replaced
}

// Find returns the condition of a type, or nil.
func Find(conditions []operatorv1.OperatorCondition, kind string) *operatorv1.OperatorCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// Among keeps the conditions of some types.
func Among(conditions []operatorv1.OperatorCondition, types ...string) []operatorv1.OperatorCondition {
	return slices.DeleteFunc(slices.Clone(conditions), func(condition operatorv1.OperatorCondition) bool {
		return !slices.Contains(types, condition.Type)
	})
}

// DropPatch is the JSON patch that removes the stale ones from an object's status.conditions; empty if there are none. It is refused where
// the conditions have changed meanwhile.
func DropPatch(conditions []operatorv1.OperatorCondition, isStale func(operatorv1.OperatorCondition) bool) ([]byte, error) {
	var patch []map[string]any
	// From the end, because a removal shifts what follows.
	for i, condition := range slices.Backward(conditions) {
		if isStale(condition) {
			path := fmt.Sprintf("/status/conditions/%d", i)
			patch = append(patch, map[string]any{"op": "test", "path": path + "/type", "value": condition.Type},
				map[string]any{"op": "remove", "path": path})
		}
	}
	if len(patch) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return encoded, nil
}

func sorted(conditions []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	return slices.SortedFunc(slices.Values(conditions), func(a, b operatorv1.OperatorCondition) int { return strings.Compare(a.Type, b.Type) })
}
