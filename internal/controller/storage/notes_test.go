package storage

import (
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// actions records the actions of events.
type actions struct{ got []string }

func (a *actions) Eventf(_, _ runtime.Object, _, _, action, _ string, _ ...any) {
	a.got = append(a.got, action)
}

// client-go drops the note of an event that has the type, reason, action and object of an earlier event (v0.36.3, tools/events/event_broadcaster.go).
func TestEachChangeOfTheStatusHasAnActionOfItsOwn(t *testing.T) {
	const yes, no = configv1.ConditionTrue, configv1.ConditionFalse
	state := func(available, progressing configv1.ConditionStatus) configv1.ClusterOperatorStatus {
		return configv1.ClusterOperatorStatus{Conditions: []configv1.ClusterOperatorStatusCondition{
			{Type: configv1.OperatorAvailable, Status: available}, {Type: configv1.OperatorProgressing, Status: progressing},
		}}
	}
	did := &actions{}
	emit(did, &configv1.ClusterOperator{}, state(yes, no), state(no, no))
	emit(did, &configv1.ClusterOperator{}, state(no, no), state(yes, yes))
	if want := []string{"Available=False", "Available=True,Progressing=True"}; !slices.Equal(did.got, want) {
		t.Errorf("actions %q, want %q", did.got, want)
	}
}
