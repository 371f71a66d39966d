// Package status computes operator conditions. Its functions are pure. Failures, Rollouts, Waits, Patience and Watchdog measure durations with a
// clock that the caller gives them. Writer writes a status only if the status changes.
//
// A message says what, where and why. Messages contain no timestamps and list names in order, so that a condition does not flap.
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

// The condition types that sum up all other conditions. They are for tools that do not know the condition types of each driver.
const (
	Available   = "Available"
	Progressing = "Progressing"
	Degraded    = "Degraded"
	Upgradeable = "Upgradeable"
)

const (
	// AsExpected is the reason of a condition without a problem.
	AsExpected = "AsExpected"
	// Deploying is the reason while a roll-out is under way.
	Deploying = "Deploying"
)

// Condition returns a condition. An empty reason becomes AsExpected.
func Condition(kind string, value bool, reason, message string) operatorv1.OperatorCondition {
	state := operatorv1.ConditionFalse
	if value {
		state = operatorv1.ConditionTrue
	}
	return operatorv1.OperatorCondition{Type: kind, Status: state, Reason: cmp.Or(reason, AsExpected), Message: message}
}

// Sums lists the types that Sum adds.
func Sums() []string { return []string{Available, Progressing, Degraded, Upgradeable} }

// Sum adds the conditions Available, Progressing, Degraded and Upgradeable. Each is the union of the conditions whose types end in its own type.
// Argument "others" has the conditions of other controllers in the same object. These conditions count, too, because a sum must not contradict them.
// The message of a sum names the deciding conditions.
func Sum(conditions, others []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	all, counted := conditions, slices.Concat(conditions, others)
	for _, kind := range Sums() {
		union := UnionOf(kind, counted)
		all = append(all, operatorv1.OperatorCondition{Type: kind, Status: union.Status, Reason: union.Reason(), Message: union.problem()})
	}
	return all
}

// Merge returns the wanted conditions, sorted by type. A condition with unchanged status keeps its old transition time.
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

// Replace returns a copy of the conditions. In the copy, argument "by" replaces the condition of the same type, if there is one.
func Replace(conditions []operatorv1.OperatorCondition, by operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	replaced := append([]operatorv1.OperatorCondition(nil), conditions...)
	if old := Find(replaced, by.Type); old != nil {
		*old = by
	}
	return replaced
}

// Find returns the condition of a type, or nil if there is none.
func Find(conditions []operatorv1.OperatorCondition, kind string) *operatorv1.OperatorCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// Among returns the conditions that have one of these types.
func Among(conditions []operatorv1.OperatorCondition, types ...string) []operatorv1.OperatorCondition {
	return slices.DeleteFunc(slices.Clone(conditions), func(condition operatorv1.OperatorCondition) bool {
		return !slices.Contains(types, condition.Type)
	})
}

// DropPatch returns the JSON patch that removes stale conditions from status.conditions. The patch is empty if no condition is stale. The API server
// rejects the patch if the conditions have changed.
func DropPatch(conditions []operatorv1.OperatorCondition, isStale func(operatorv1.OperatorCondition) bool) ([]byte, error) {
	var patch []map[string]any
	// Start from the end, because each removal shifts the later indexes.
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
