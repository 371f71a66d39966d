package storage

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/google/go-cmp/cmp"
)

func TestEventsTellWhatHasChangedInTheClusterOperator(t *testing.T) {
	state := func(available, degraded configv1.ConditionStatus, message string, versions ...string) configv1.ClusterOperatorStatus {
		made := configv1.ClusterOperatorStatus{Conditions: []configv1.ClusterOperatorStatusCondition{
			{Type: configv1.OperatorAvailable, Status: available, Message: message}, {Type: configv1.OperatorDegraded, Status: degraded, Message: message},
		}}
		for i, name := range []string{"plain-operator", "operator"}[:len(versions)] {
			made.Versions = append(made.Versions, configv1.OperandVersion{Name: name, Version: versions[i]})
		}
		return made
	}
	const yes, no = configv1.ConditionTrue, configv1.ConditionFalse
	long := strings.Repeat("x", 2000)
	for name, tc := range map[string]struct {
		before, after configv1.ClusterOperatorStatus
		want          []string
	}{
		"at first":               {configv1.ClusterOperatorStatus{}, state(yes, no, "well"), []string{"Normal OperatorStatusChanged Available is True; Degraded is False"}},
		"at first, and degraded": {configv1.ClusterOperatorStatus{}, state(yes, yes, "bad"), []string{"Warning OperatorStatusChanged Available is True; Degraded is True"}},
		"another text":           {state(yes, no, "well"), state(yes, no, "better"), nil},
		"degraded since": {state(yes, no, ""), state(yes, yes, "it is 100% broken"),
			[]string{"Warning OperatorStatusChanged Degraded changed from False to True (it is 100% broken)"}},
		"not degraded any more":    {state(yes, yes, ""), state(yes, no, "All is well"), []string{"Normal OperatorStatusChanged Degraded changed from True to False (All is well)"}},
		"degraded as before":       {state(no, yes, ""), state(yes, yes, "up"), []string{"Normal OperatorStatusChanged Available changed from False to True (up)"}},
		"a message without an end": {state(yes, yes, ""), state(no, yes, long), []string{"Normal OperatorStatusChanged " + ("Available changed from True to False (" + long)[:1000] + "..."}},
		"versions that were reached": {state(yes, no, "", "1"), state(yes, no, "", "2", "2"), []string{
			"Normal OperatorVersionChanged version of plain-operator changed from 1 to 2; version of operator changed from none yet to 2",
		}},
		"a version that has gone": {state(yes, no, "", "1", "1"), state(yes, no, "", "1"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := reconcilerOf(newCluster(t))
			emit(r.Events, &configv1.ClusterOperator{}, tc.before, tc.after)
			if diff := cmp.Diff(tc.want, heard(r)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
