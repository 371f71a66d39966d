package status

import (
	"errors"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOnlyAReconcileThatHangsFailsTheProbe(t *testing.T) {
	watchdog, began := &Watchdog{}, time.Unix(1000, 0)
	late := began.Add(longestReconcile + time.Second)
	if err := watchdog.Check("x", late); err != nil {
		t.Errorf("before the first one: %v", err)
	}
	end := watchdog.Begin(began)
	if err := watchdog.Check("x", began.Add(longestReconcile)); err != nil {
		t.Errorf("a long one: %v", err)
	}
	if err := watchdog.Check("x", late); err == nil || err.Error() != "a reconcile of x has been running for 10m1s" {
		t.Errorf("one that hangs: %v", err)
	}
	end()
	if err := watchdog.Check("x", late); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

func TestOnlyConflictsAreNotWorthAnError(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "a"}, "b", errors.New("changed"))
	other := errors.New("other")
	for err, want := range map[error]bool{conflict: true, other: false, errors.Join(conflict, conflict): true, errors.Join(conflict, other): false} {
		if got := OnlyConflicts(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestStaleConditionsAreRemovedFromTheEnd(t *testing.T) {
	conditions := []operatorv1.OperatorCondition{{Type: "old1"}, {Type: "new"}, {Type: "old2"}}
	patch, err := DropPatch(conditions, func(condition operatorv1.OperatorCondition) bool { return condition.Type != "new" })
	want := `[{"op":"test","path":"/status/conditions/2/type","value":"old2"},{"op":"remove","path":"/status/conditions/2"},` +
		`{"op":"test","path":"/status/conditions/0/type","value":"old1"},{"op":"remove","path":"/status/conditions/0"}]`
	if err != nil || string(patch) != want {
		t.Errorf("patch %s, error %v, want %s", patch, err, want)
	}
	if patch, err := DropPatch(conditions, func(operatorv1.OperatorCondition) bool { return false }); err != nil || patch != nil {
		t.Errorf("patch %s, error %v, want none", patch, err)
	}
}

func TestAnErrorComesBackWithoutADelay(t *testing.T) {
	lost := errors.New("no route")
	for _, tc := range []struct {
		after, want time.Duration
		err         error
	}{{0, 0, nil}, {time.Minute, time.Minute, nil}, {time.Minute, 0, lost}, {0, 0, lost}} {
		if got, err := Requeue(tc.after, tc.err); got.RequeueAfter != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%+v: %+v, %v", tc, got, err)
		}
	}
}
