package status

import (
	"cmp"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Union sums up the conditions whose types end in a kind: Available, Progressing, Degraded or Upgradeable.
type Union struct {
	// Status is what they come to: the bad one if any part is bad, else Unknown if any is neither good nor bad.
	Status operatorv1.ConditionStatus
	// Parts are the conditions that decide; none if all are well. They are sorted by type, which has lost its end.
	Parts []operatorv1.OperatorCondition
	// Notes are the messages of the conditions that are well.
	Notes []string
	// Found reports whether there was any.
	Found bool
}

// UnionOf makes one. A condition whose type is the kind itself sums up others of its object; it counts, but it is not repeated beside
// them.
func UnionOf(kind string, conditions []operatorv1.OperatorCondition) Union {
	good, bad := operatorv1.ConditionTrue, operatorv1.ConditionFalse
	if kind == Progressing || kind == Degraded {
		good, bad = bad, good
	}
	union := Union{Status: good}
	parts := map[operatorv1.ConditionStatus][]operatorv1.OperatorCondition{}
	var plain *operatorv1.OperatorCondition
	for _, condition := range sorted(conditions) {
		part, fits := strings.CutSuffix(condition.Type, kind)
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
		// It says in one message what the others say, or what none of them does.
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

// line names a part, unless it is the whole.
func line(part operatorv1.OperatorCondition, text string) string {
	if part.Type == "" {
		return text
	}
	return part.Type + ": " + text
}

// Message names every part that decides, one a line; if none does, it has the notes.
func (u Union) Message() string {
	return cmp.Or(u.problem(), strings.Join(u.Notes, "\n"))
}

// problem names every part that decides, one a line; empty if none does.
func (u Union) problem() string {
	lines := make([]string, 0, len(u.Parts))
	for _, part := range u.Parts {
		lines = append(lines, line(part, cmp.Or(part.Message, part.Reason)))
	}
	return strings.Join(lines, "\n")
}

// Reason is that of the part which decides, Multiple if several have different ones, AsExpected if none decides.
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

// allWell is the message of a sum in which nothing is to be said.
const allWell = "All is well"

// ClusterOperator sums up the conditions of an operator as those of a ClusterOperator. Types that have been True for less than the
// FailureWindow and of which patience is wanted do not degrade it yet; again says that there are such.
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
	// Reasons are what telemetry keeps, so that they say which part it was.
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

// UnknownClusterOperator are the conditions of a ClusterOperator about which nothing can be said.
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

// MergeClusterOperator gives the conditions to write, each with the transition time of the old one if its status is the same.
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

// FindClusterOperator returns the condition of a type, or nil.
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
