package status

import (
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
)

func TestAWaitForAPersonDegradesAfterFifteenMinutes(t *testing.T) {
	now := time.Unix(1000, 0)
	w := &Waits{Now: func() time.Time { return now }}
	waiting := []operatorv1.OperatorCondition{Condition("XProgressing", true, "Waiting", "for it"), Condition("XDegraded", false, "", "")}
	look := func(cause string, reported ...operatorv1.OperatorCondition) (bool, time.Duration) {
		all, again := w.Degrade(waiting, "X", cause, cause+": act", reported)
		degraded, progressing := Find(all, "XDegraded"), Find(all, "XProgressing")
		if overdue := IsActionRequired(degraded); overdue == (progressing.Status == operatorv1.ConditionTrue) {
			t.Errorf("%s: degraded %s, progressing %s", cause, degraded.Status, progressing.Status)
		}
		if IsActionRequired(degraded) && degraded.Message != "for more than 15 minutes: "+cause+": act" {
			t.Errorf("message %q", degraded.Message)
		}
		return IsActionRequired(degraded), again
	}
	expect := func(what string, gotOverdue bool, gotAgain time.Duration, overdue bool, again time.Duration) {
		t.Helper()
		if gotOverdue != overdue || gotAgain != again {
			t.Errorf("%s: overdue %t, again after %s; want %t, %s", what, gotOverdue, gotAgain, overdue, again)
		}
	}
	overdue, again := look("a")
	expect("it begins", overdue, again, false, WaitLimit)
	now = now.Add(10 * time.Minute)
	overdue, again = look("a")
	expect("it goes on", overdue, again, false, 5*time.Minute)
	now = now.Add(5 * time.Minute)
	overdue, again = look("a")
	expect("it is over its limit", overdue, again, true, 0)
	overdue, again = look("b", Condition("XDegraded", true, ActionRequired, ""))
	expect("another wait", overdue, again, false, WaitLimit)
	now = now.Add(WaitLimit)
	overdue, again = look("")
	expect("none", overdue, again, false, 0)
	overdue, again = look("b")
	expect("again", overdue, again, false, WaitLimit)
}

// The report is one of before a restart, or one of another copy of the operator.
func TestAWaitIsOverdueWhereTheLastReportSaysSo(t *testing.T) {
	const text = "for more than 15 minutes: b: act"
	for name, tc := range map[string]struct {
		reported []operatorv1.OperatorCondition
		overdue  bool
	}{
		"of this wait":     {[]operatorv1.OperatorCondition{Condition("XDegraded", true, ActionRequired, text)}, true},
		"of another cause": {[]operatorv1.OperatorCondition{Condition("XDegraded", true, ActionRequired, "for more than 15 minutes: a: act")}, false},
		"of a cause that is a reason": {[]operatorv1.OperatorCondition{
			Condition("XAvailable", false, "b", "it lacks"), Condition("XDegraded", true, ActionRequired, "for more than 15 minutes: it lacks"),
		}, true},
		"of another reason": {[]operatorv1.OperatorCondition{
			Condition("XAvailable", false, "a", "it lacks"), Condition("XDegraded", true, ActionRequired, "for more than 15 minutes: it lacks"),
		}, false},
		"of another failure":            {[]operatorv1.OperatorCondition{Condition("XDegraded", true, "SyncError", text)}, false},
		"the sum alone":                 {[]operatorv1.OperatorCondition{Condition("Degraded", true, ActionRequired, "X: "+text)}, true},
		"the sum, with another failure": {[]operatorv1.OperatorCondition{Condition("Degraded", true, "Multiple", "A: no\nX: "+text)}, true},
		"the sum, beside a predecessor's": {[]operatorv1.OperatorCondition{
			Condition("XDegraded", false, "", ""), Condition("Degraded", true, ActionRequired, "X: "+text),
		}, true},
		"the sum, of another service": {[]operatorv1.OperatorCondition{Condition("Degraded", true, ActionRequired, "Y: "+text)}, false},
		"the sum, of another cause": {[]operatorv1.OperatorCondition{
			Condition("Degraded", true, ActionRequired, "X: for more than 15 minutes: a: act"),
		}, false},
		"the sum, in which all is well": {[]operatorv1.OperatorCondition{Condition("Degraded", false, "", "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Waits{Now: func() time.Time { return time.Unix(1000, 0) }}
			all := []operatorv1.OperatorCondition{Condition("XProgressing", true, "Waiting", ""), Condition("XDegraded", false, "", "")}
			restarted, _ := w.Degrade(all, "X", "b", "b: act", tc.reported)
			w.Reset()
			w.Degrade(all, "X", "b", "b: act", nil)
			other, _ := w.Degrade(all, "X", "b", "b: act", tc.reported)
			for when, got := range map[string][]operatorv1.OperatorCondition{"after a restart": restarted, "of another copy": other} {
				if overdue := IsActionRequired(Find(got, "XDegraded")); overdue != tc.overdue {
					t.Errorf("%s: overdue %t, want %t", when, overdue, tc.overdue)
				}
			}
		})
	}
}

func TestAnOverdueWaitThatIsKeptHidesNoOtherFailure(t *testing.T) {
	reported := []operatorv1.OperatorCondition{Condition("XDegraded", true, ActionRequired, "act"), Condition("XProgressing", false, ActionRequired, "")}
	for name, tc := range map[string]struct {
		degraded operatorv1.OperatorCondition
		reported []operatorv1.OperatorCondition
		want     string
	}{
		"nothing fails":        {Condition("XDegraded", false, "", ""), reported, ActionRequired},
		"something else fails": {Condition("XDegraded", true, "SyncError", "no"), reported, "SyncError"},
		"it was not overdue": {Condition("XDegraded", false, "", ""), []operatorv1.OperatorCondition{
			Condition("XDegraded", true, "SyncError", "no"),
		}, AsExpected},
	} {
		t.Run(name, func(t *testing.T) {
			all := KeepOverdue([]operatorv1.OperatorCondition{tc.degraded}, "X", tc.reported)
			if got := Find(all, "XDegraded"); got.Reason != tc.want {
				t.Errorf("%s: %s", got.Reason, got.Message)
			}
		})
	}
}

func TestAWaitHidesNoOtherFailure(t *testing.T) {
	w := &Waits{Now: time.Now}
	all := []operatorv1.OperatorCondition{Condition("XProgressing", true, "Waiting", ""), Condition("XDegraded", true, "SyncError", "refused")}
	all, _ = w.Degrade(all, "X", "a", "a", []operatorv1.OperatorCondition{Condition("XDegraded", true, ActionRequired, "")})
	if got := Find(all, "XDegraded"); got.Reason != "SyncError" || got.Message != "refused" {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
}
