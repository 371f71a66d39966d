package main

import (
	"errors"
	"testing"

	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func event(kind watch.EventType, uid types.UID) watch.Event {
	return watch.Event{Type: kind, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: uid}}}
}

func TestAnObjectIsRepairedOnceItHasANewUID(t *testing.T) {
	events := make(chan watch.Event, 5)
	events <- event(watch.Added, "old")
	events <- event(watch.Modified, "old") // It has a finalizer.
	events <- event(watch.Deleted, "old")
	events <- event(watch.Added, "new")
	events <- event(watch.Modified, "new")
	if err := awaitRenewal(t.Context(), events, "old"); err != nil {
		t.Fatal(err)
	}
	if left := len(events); left != 1 {
		t.Errorf("%d events are left, want the one after the new object", left)
	}
}

func TestAnObjectThatStaysAwayIsNotRepaired(t *testing.T) {
	late, cancel := context.WithCancelCause(t.Context())
	cancel(errLate)
	if err := awaitRenewal(late, make(chan watch.Event), "old"); !errors.Is(err, errLate) {
		t.Errorf("got %v", err)
	}
}

func TestABrokenWatchIsAnError(t *testing.T) {
	closed := make(chan watch.Event)
	close(closed)
	failed := make(chan watch.Event, 1)
	failed <- watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "too old"}}
	for name, events := range map[string]chan watch.Event{"closed": closed, "failed": failed} {
		t.Run(name, func(t *testing.T) {
			if err := awaitRenewal(t.Context(), events, "old"); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestTheEndOfEachObjectIsReportedOnce(t *testing.T) {
	events := make(chan watch.Event, 4)
	deaths := make(chan death, 4)
	events <- event(watch.Added, "mine")
	events <- event(watch.Deleted, "other")
	events <- event(watch.Deleted, "mine")
	close(events)
	reportDeaths(t.Context(), events, []types.UID{"mine"}, deaths)
	if first := <-deaths; first.uid != "mine" || first.err != nil {
		t.Errorf("got %+v", first)
	}
	if second := <-deaths; second.err == nil {
		t.Errorf("the closed watch is not reported, but %+v", second)
	}
}
