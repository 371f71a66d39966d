package storage

import (
	"context"
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// sink hands over the notes of the events that client-go would create.
type sink chan string

func (s sink) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	s <- event.Note
	return event, nil
}

func (s sink) Update(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	s <- "repeated: " + event.Note
	return event, nil
}

func (s sink) Patch(ctx context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return s.Update(ctx, event)
}

func TestEachChangeOfTheStatusKeepsItsNote(t *testing.T) {
	notes := sink(make(chan string))
	broadcaster := events.NewBroadcaster(notes)
	t.Cleanup(broadcaster.Shutdown)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	kinds := runtime.NewScheme()
	if err := configv1.Install(kinds); err != nil {
		t.Fatal(err)
	}
	recorder := broadcaster.NewRecorder(kinds, "cluster-storage-operator")
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "storage"}}
	state := func(kind configv1.ClusterStatusConditionType, is configv1.ConditionStatus) configv1.ClusterOperatorStatus {
		return configv1.ClusterOperatorStatus{Conditions: []configv1.ClusterOperatorStatusCondition{{Type: kind, Status: is, Message: "why"}}}
	}
	const yes, no = configv1.ConditionTrue, configv1.ConditionFalse
	var got []string
	for _, change := range []struct {
		kind          configv1.ClusterStatusConditionType
		before, after configv1.ConditionStatus
	}{{configv1.OperatorAvailable, yes, no}, {configv1.OperatorProgressing, no, yes}} {
		emit(recorder, operator, state(change.kind, change.before), state(change.kind, change.after))
		got = append(got, <-notes)
	}
	want := []string{"Available changed from True to False (why)", "Progressing changed from False to True (why)"}
	if !slices.Equal(got, want) {
		t.Errorf("notes %q, want %q", got, want)
	}
}
