package status

import (
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"
)

func condition(kind string, state operatorv1.ConditionStatus, reason, message string) operatorv1.OperatorCondition {
	return operatorv1.OperatorCondition{Type: kind, Status: state, Reason: reason, Message: message}
}

func TestAUnionSaysWhichPartsDecide(t *testing.T) {
	const yes, no, unknown = operatorv1.ConditionTrue, operatorv1.ConditionFalse, operatorv1.ConditionUnknown
	for name, tc := range map[string]struct {
		kind            string
		conditions      []operatorv1.OperatorCondition
		state           operatorv1.ConditionStatus
		reason, message string
	}{
		"nothing is well":  {kind: Available, state: yes, reason: AsExpected},
		"all are well":     {kind: Degraded, conditions: []operatorv1.OperatorCondition{condition("ADegraded", no, "", "")}, state: no, reason: AsExpected},
		"notes are sorted": {Available, []operatorv1.OperatorCondition{condition("BAvailable", yes, "", "b"), condition("AAvailable", yes, "", "a")}, yes, AsExpected, "A: a\nB: b"},
		"one is bad": {Available, []operatorv1.OperatorCondition{
			condition("AAvailable", yes, "", "a"), condition("BAvailable", no, "Deploying", "b"), condition("BProgressing", yes, "", "c"),
		}, no, "Deploying", "B: b"},
		"several are bad for different reasons": {Degraded, []operatorv1.OperatorCondition{
			condition("ADegraded", yes, "SyncError", "a"), condition("BDegraded", yes, "RolloutStuck", "b"),
		}, yes, "Multiple", "A: a\nB: b"},
		"bad counts more than unknown": {Upgradeable, []operatorv1.OperatorCondition{
			condition("AUpgradeable", unknown, "Asking", "a"), condition("BUpgradeable", no, "Old", "b"),
		}, no, "Old", "B: b"},
		"unknown counts more than good": {Upgradeable, []operatorv1.OperatorCondition{
			condition("AUpgradeable", unknown, "Asking", "a"), condition("BUpgradeable", yes, "", "b"),
		}, unknown, "Asking", "A: a"},
		"a sum is not repeated beside its parts": {Available, []operatorv1.OperatorCondition{
			condition("Available", no, "Deploying", "A: a"), condition("AAvailable", no, "Deploying", "a"),
		}, no, "Deploying", "A: a"},
		"a sum without parts counts": {Available, []operatorv1.OperatorCondition{condition("Available", no, "Removed", "gone")}, no, "Removed", "gone"},
		"what a sum says that is well stands for all": {Available, []operatorv1.OperatorCondition{
			condition("Available", yes, "", "one pod is missing"), condition("AAvailable", yes, "", "one pod is missing"),
		}, yes, AsExpected, "one pod is missing"},
		"a sum that says nothing does not hide notes": {Available, []operatorv1.OperatorCondition{
			condition("Available", yes, "", ""), condition("AAvailable", yes, "", "note"),
		}, yes, AsExpected, "A: note"},
		"without a message the reason is told": {Progressing, []operatorv1.OperatorCondition{condition("AProgressing", yes, "Deploying", "")}, yes, "Deploying", "A: Deploying"},
	} {
		t.Run(name, func(t *testing.T) {
			union := UnionOf(tc.kind, tc.conditions)
			if union.Status != tc.state || union.Reason() != tc.reason || union.Message() != tc.message {
				t.Errorf("got %s, %s, %q; want %s, %s, %q", union.Status, union.Reason(), union.Message(), tc.state, tc.reason, tc.message)
			}
			if union.Found != (len(tc.conditions) > 0) {
				t.Errorf("found: %v", union.Found)
			}
		})
	}
}

func TestAClusterOperatorSumsUpAndIsPatientWhereItShouldBe(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	since := func(one operatorv1.OperatorCondition, ago time.Duration) operatorv1.OperatorCondition {
		one.LastTransitionTime = metav1.NewTime(now.Add(-ago))
		return one
	}
	conditions := []operatorv1.OperatorCondition{
		since(condition("TheirsDegraded", operatorv1.ConditionTrue, "SyncError", "a"), FailureWindow-time.Second),
		since(condition("AAvailable", operatorv1.ConditionFalse, "Deploying", "b"), 0),
		since(condition("BAvailable", operatorv1.ConditionFalse, "Gone", "c"), 0),
	}
	patience := func(kind string) bool { return kind == "TheirsDegraded" }
	find := func(all []configv1.ClusterOperatorStatusCondition, kind configv1.ClusterStatusConditionType) configv1.ClusterOperatorStatusCondition {
		t.Helper()
		found := FindClusterOperator(all, kind)
		if found == nil {
			t.Fatalf("no condition %s", kind)
		}
		return *found
	}
	all, again := ClusterOperator(conditions, patience, now)
	if len(all) != 5 || !again {
		t.Errorf("%d conditions, look again: %v", len(all), again)
	}
	want := configv1.ClusterOperatorStatusCondition{
		Type: configv1.OperatorAvailable, Status: configv1.ConditionFalse, Reason: "A_Deploying::B_Gone", Message: "A: b\nB: c",
	}
	if diff := cmp.Diff(want, find(all, configv1.OperatorAvailable)); diff != "" {
		t.Error(diff)
	}
	if degraded := find(all, configv1.OperatorDegraded); degraded.Status != configv1.ConditionFalse || degraded.Message != "All is well" {
		t.Errorf("what is young degrades: %+v", degraded)
	}
	conditions[0] = since(conditions[0], FailureWindow)
	all, again = ClusterOperator(conditions, patience, now)
	if degraded := find(all, configv1.OperatorDegraded); degraded.Status != configv1.ConditionTrue || degraded.Reason != "Theirs_SyncError" || again {
		t.Errorf("what lasts does not degrade: %+v, look again: %v", degraded, again)
	}
	conditions[0] = since(conditions[0], 0)
	all, _ = ClusterOperator(conditions, func(string) bool { return false }, now)
	if degraded := find(all, configv1.OperatorDegraded); degraded.Status != configv1.ConditionTrue {
		t.Errorf("without patience: %+v", degraded)
	}
}

func TestTransitionTimesOfAClusterOperatorFollowTheStatus(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	old := []configv1.ClusterOperatorStatusCondition{
		{Type: configv1.OperatorAvailable, Status: configv1.ConditionTrue, LastTransitionTime: before, Message: "old"},
		{Type: configv1.OperatorDegraded, Status: configv1.ConditionTrue, LastTransitionTime: before},
	}
	merged := MergeClusterOperator(old, []configv1.ClusterOperatorStatusCondition{
		{Type: configv1.OperatorAvailable, Status: configv1.ConditionTrue, Message: "new"},
		{Type: configv1.OperatorDegraded, Status: configv1.ConditionFalse},
		{Type: configv1.OperatorProgressing, Status: configv1.ConditionFalse},
	}, now)
	var times []metav1.Time
	for _, condition := range merged {
		times = append(times, condition.LastTransitionTime)
	}
	if diff := cmp.Diff([]metav1.Time{before, now, now}, times); diff != "" {
		t.Error(diff)
	}
}
