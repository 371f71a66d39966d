package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pvcIn is one that is expected, or not.
func pvcIn(name string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

func twoPVCs() *crowd {
	return newCrowd([]client.ObjectKey{{Namespace: "a", Name: "one"}, {Namespace: "a", Name: "two"}}, func(object client.Object) bool {
		pvc, ok := object.(*corev1.PersistentVolumeClaim)
		return ok && pvc.Status.Phase == corev1.ClaimBound
	})
}

func TestACrowdNotesWhenTheLastHasComeIsDoneAndHasGone(t *testing.T) {
	second := func(count int) time.Time { return time.Unix(int64(count), 0) }
	c := twoPVCs()
	c.see(watch.Added, pvcIn("one", corev1.ClaimPending), second(1))
	c.see(watch.Added, pvcIn("stranger", corev1.ClaimBound), second(2))
	c.see(watch.Modified, pvcIn("one", corev1.ClaimBound), second(3))
	if now := c.state(); now.there != 1 || now.done != 1 || !now.allThere.IsZero() || !now.allDone.IsZero() {
		t.Errorf("one of two is there and done, not %+v", now)
	}
	c.see(watch.Added, pvcIn("two", corev1.ClaimPending), second(4))
	c.see(watch.Modified, pvcIn("two", corev1.ClaimBound), second(5))
	c.see(watch.Modified, pvcIn("two", corev1.ClaimBound), second(6))
	if now := c.state(); now.allThere != second(4) || now.allDone != second(5) || now.mostDone != second(5) || !now.allGone.IsZero() {
		t.Errorf("both are there since 4 and done since 5, not %+v", now)
	}
	c.see(watch.Deleted, pvcIn("one", corev1.ClaimBound), second(7))
	c.see(watch.Deleted, pvcIn("stranger", corev1.ClaimBound), second(8))
	c.see(watch.Deleted, pvcIn("two", corev1.ClaimBound), second(9))
	if now := c.state(); !isGone(now) || now.allGone != second(9) || now.allDone != second(5) {
		t.Errorf("both have gone since 9, not %+v", now)
	}
}

func TestNineteenOfTwentyAreMost(t *testing.T) {
	var keys []client.ObjectKey
	for number := range 20 {
		keys = append(keys, shareKey(number))
	}
	c := newCrowd(keys, func(client.Object) bool { return true })
	for number, key := range keys {
		object := pvcIn(key.Name, corev1.ClaimBound)
		object.Namespace = key.Namespace
		c.see(watch.Added, object, time.Unix(int64(number+1), 0))
	}
	if now := c.state(); now.mostDone != time.Unix(19, 0) || now.allDone != time.Unix(20, 0) {
		t.Errorf("got %+v", now)
	}
}

func TestACrowdFailsWithItsWatch(t *testing.T) {
	events := make(chan watch.Event, 1)
	events <- watch.Event{Type: watch.Added, Object: pvcIn("one", corev1.ClaimBound)}
	close(events)
	c := twoPVCs()
	c.follow(t.Context(), events)
	if now := c.state(); now.there != 1 || now.err == nil {
		t.Errorf("got %+v", now)
	}
	if _, err := awaitCrowds(t.Context(), time.Minute, []*crowd{c}, isDone(2)); err == nil {
		t.Error("the wait goes on without a watch")
	}
}

func TestTheLatestIsUnknownUntilAllHaveHappened(t *testing.T) {
	began := time.Unix(10, 0)
	if got := latest(began, time.Unix(11, 0), time.Unix(13, 0), time.Unix(12, 0)); got == nil || *got != 3000 {
		t.Errorf("got %v", got)
	}
	if got := latest(began, time.Unix(11, 0), time.Time{}); got != nil {
		t.Errorf("got %v", *got)
	}
}

func TestAVolumeOfASharedVolumeIsKnownByItsPVC(t *testing.T) {
	c := &crowd{
		expected: map[client.ObjectKey]bool{plainVolume("ns", "one"): true}, there: map[client.ObjectKey]bool{}, done: map[client.ObjectKey]bool{},
		isDone: func(client.Object) bool { return true },
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-ns-one-5b44954df4"}}
	c.see(watch.Added, volume, time.Unix(1, 0))
	if c.state().there != 0 {
		t.Error("a volume that is for no PVC counts")
	}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "pvc-one"}
	c.see(watch.Modified, volume, time.Unix(2, 0))
	if c.state().there != 1 || c.state().done != 1 {
		t.Errorf("%+v", c.state())
	}
}
