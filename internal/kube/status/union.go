package status

import (
	"cmp"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Union sums up the conditions whose types end in Available, Progressing, Degraded or Upgradeable.
type Union struct {
	// Status is bad if at least one condition is bad. Status is Unknown if no condition is bad, but at least one is Unknown. Status is good if all
	// conditions are good.
	Status operatorv1.ConditionStatus
	// Parts are the conditions that decide the Status, sorted by type. Their types do not have the suffix. Parts is empty if all conditions are good.
	Parts []operatorv1.OperatorCondition
	// Notes are the messages of the good conditions.
	Notes []string
	// Found reports whether at least one condition has the suffix.
	Found bool
}

// UnionOf returns the union of the conditions whose type ends in suffix, such as Degraded. A condition whose type is the suffix alone is a summary of
// the other conditions. UnionOf uses the summary in two cases: no other condition has the summary's status, or the summary is good and has a message.
// In the second case, the summary replaces all other good conditions.
func UnionOf(suffix string, conditions []operatorv1.OperatorCondition) Union {
	good, bad := operatorv1.ConditionTrue, operatorv1.ConditionFalse
	if suffix == Progressing || suffix == Degraded {
		good, bad = bad, good
	}
	union := Union{Status: good}
	parts := map[operatorv1.ConditionStatus][]operatorv1.OperatorCondition{}
	var plain *operatorv1.OperatorCondition
	for _, condition := range sorted(conditions) {
		part, fits := strings.CutSuffix(condition.Type, suffix)
		if !fits {
			continue
		}
		union.Found = true
		if condition.Type = part; part == "" {
			plain = &condition
			continue
		}
		parts[condition.Status] = append(parts[condition.Status], condition)
	}
	if plain != nil && (plain.Status == good && plain.Message != "" || len(parts[plain.Status]) == 0) {
		// Let the summary replace the other conditions that have the same status.
		parts[plain.Status] = []operatorv1.OperatorCondition{*plain}
	}
	for _, state := range []operatorv1.ConditionStatus{operatorv1.ConditionUnknown, bad} {
		if len(parts[state]) > 0 {
			union.Status, union.Parts = state, parts[state]
		}
	}
	for _, part := range parts[good] {
		if part.Message != "" {
			union.Notes = append(union.Notes, line(part, part.Message))
		}
	}
	return union
}

// line puts the type of a condition before a text.
func line(part operatorv1.OperatorCondition, text string) string {
	if part.Type == "" {
		return text
	}
	return part.Type + ": " + text
}

// Message returns a line for each deciding part. If no part decides, it returns the Notes.
func (u Union) Message() string {
	return cmp.Or(u.problem(), strings.Join(u.Notes, "\n"))
}

// problem returns a line for each deciding part. If no part decides, it returns an empty text.
func (u Union) problem() string {
	lines := make([]string, 0, len(u.Parts))
	for _, part := range u.Parts {
		lines = append(lines, line(part, cmp.Or(part.Message, part.Reason)))
	}
	return strings.Join(lines, "\n")
}

// Reason returns the reason of the deciding parts, or Multiple if their reasons differ. If no part decides, it returns AsExpected.
func (u Union) Reason() string {
	reason := AsExpected
	for i, part := range u.Parts {
		switch {
		case i == 0 && part.Reason != "":
			reason = part.Reason
		case i > 0 && part.Reason != reason:
			return "Multiple"
		}
	}
	return reason
}

// allWell is the message of a summary condition without problems.
const allWell = "All is well"

// ClusterOperator sums up the conditions of an operator for a ClusterOperator. If the function patience returns true for the type of a condition,
// this condition degrades the ClusterOperator only after FailureWindow. Result "again" is true if such a condition has failed for a shorter time.
func ClusterOperator(
	conditions []operatorv1.OperatorCondition, patience func(kind string) bool, now metav1.Time,
) (all []configv1.ClusterOperatorStatusCondition, again bool) {
	for _, kind := range Sums() {
		counted := conditions
		if kind == Degraded {
			counted = nil
			for _, condition := range conditions {
				young := now.Sub(condition.LastTransitionTime.Time) < FailureWindow
				if strings.HasSuffix(condition.Type, Degraded) && condition.Status != operatorv1.ConditionFalse && young && patience(condition.Type) {
					again = true
					continue
				}
				counted = append(counted, condition)
			}
		}
		all = append(all, clusterCondition(kind, UnionOf(kind, counted)))
	}
	return append(all, configv1.ClusterOperatorStatusCondition{
		Type: configv1.EvaluationConditionsDetected, Status: configv1.ConditionFalse, Reason: AsExpected, Message: allWell,
	}), again
}

func clusterCondition(kind string, union Union) configv1.ClusterOperatorStatusCondition {
	// Telemetry keeps only reasons, so each reason must name its part.
	var reasons []string
	for _, part := range union.Parts {
		reason := part.Reason
		if part.Type != "" {
			reason = part.Type + "_" + reason
		}
		reasons = append(reasons, reason)
	}
	return configv1.ClusterOperatorStatusCondition{
		Type: configv1.ClusterStatusConditionType(kind), Status: configv1.ConditionStatus(union.Status),
		Reason: cmp.Or(strings.Join(reasons, "::"), AsExpected), Message: cmp.Or(union.Message(), allWell),
	}
}

// UnknownClusterOperator returns all conditions of a ClusterOperator as Unknown.
func UnknownClusterOperator(reason, message string) []configv1.ClusterOperatorStatusCondition {
	var all []configv1.ClusterOperatorStatusCondition
	for _, kind := range []configv1.ClusterStatusConditionType{
		configv1.OperatorAvailable, configv1.OperatorProgressing, configv1.OperatorDegraded, configv1.OperatorUpgradeable,
		configv1.EvaluationConditionsDetected,
	} {
		all = append(all, configv1.ClusterOperatorStatusCondition{
			Type: kind, Status: configv1.ConditionUnknown, Reason: reason, Message: message,
		})
	}
	return all
}

// MergeClusterOperator returns the wanted conditions. A condition with unchanged status keeps its old transition time.
func MergeClusterOperator(old, wanted []configv1.ClusterOperatorStatusCondition, now metav1.Time) []configv1.ClusterOperatorStatusCondition {
	merged := append([]configv1.ClusterOperatorStatusCondition(nil), wanted...)
	for i := range merged {
		merged[i].LastTransitionTime = now
		if before := FindClusterOperator(old, merged[i].Type); before != nil && before.Status == merged[i].Status {
			merged[i].LastTransitionTime = before.LastTransitionTime
		}
	}
	return merged
}

// FindClusterOperator returns the condition of a type, or nil if there is none.
func FindClusterOperator(
	conditions []configv1.ClusterOperatorStatusCondition, kind configv1.ClusterStatusConditionType,
) *configv1.ClusterOperatorStatusCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}
