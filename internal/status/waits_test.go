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
	w.Forget()
	overdue, again = look("b", Condition("XDegraded", true, ActionRequired, ""))
	expect("after a restart", overdue, again, true, 0)
	w.Forget()
	overdue, again = look("b", Condition("XDegraded", true, "SyncError", ""))
	expect("after a restart, with another failure", overdue, again, false, WaitLimit)
}

func TestAWaitHidesNoOtherFailure(t *testing.T) {
	w := &Waits{Now: time.Now}
	all := []operatorv1.OperatorCondition{Condition("XProgressing", true, "Waiting", ""), Condition("XDegraded", true, "SyncError", "refused")}
	all, _ = w.Degrade(all, "X", "a", "a", []operatorv1.OperatorCondition{Condition("XDegraded", true, ActionRequired, "")})
	if got := Find(all, "XDegraded"); got.Reason != "SyncError" || got.Message != "refused" {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
}
