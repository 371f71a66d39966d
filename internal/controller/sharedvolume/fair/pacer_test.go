package fair

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Hundreds wait for one thing, such as a list. When it comes, they are made at once.
func TestWhatWasWaitedForTakesNoTry(t *testing.T) {
	p, now := NewPacer("NameTaken", "QuotaExceeded", "Forbidden", "Refused"), time.Unix(1000, 0)
	for i := range 1000 {
		key := client.ObjectKey{Namespace: "ns", Name: fmt.Sprint(i)}
		p.Failed(key, "NotAllowed", now)
		if !p.May(key, "Creating", true, now) {
			t.Fatalf("number %d may not be made", i)
		}
	}
}

func TestAFailureIsTriedAgainAtGrowingIntervals(t *testing.T) {
	p, now := NewPacer("NameTaken", "QuotaExceeded", "Forbidden", "Refused"), time.Unix(1000, 0)
	key := client.ObjectKey{Namespace: "ns", Name: "sv1"}
	for _, want := range []time.Duration{30, 60, 120, 240, 480, 600, 600} {
		if !p.May(key, "NameTaken", false, now) {
			t.Fatalf("it is due after %s, and may not be tried", want)
		}
		if got := p.Failed(key, "NameTaken", now); got != want*time.Second {
			t.Errorf("the next try in %s, want %ds", got, want)
		}
		if p.May(key, "NameTaken", false, now.Add(time.Second)) {
			t.Error("tried again although nothing is new")
		}
		if got := p.Failed(key, "NameTaken", now.Add(time.Second)); got != want*time.Second-time.Second {
			t.Errorf("looked at before it was due, the next try is in %s", got)
		}
		now = now.Add(want * time.Second)
	}
	if !p.May(key, "Creating", true, now.Add(-time.Second)) {
		t.Error("what has changed is not looked at")
	}
	if got := p.Failed(key, "QuotaExceeded", now); got != FirstPause {
		t.Errorf("another reason waits for %s", got)
	}
	p.Settled(key)
	if len(p.failing) != 0 {
		t.Errorf("%d namespaces are remembered for nothing", len(p.failing))
	}
	if got := p.Failed(key, "QuotaExceeded", now); got != FirstPause {
		t.Errorf("after it was well, it waits for %s", got)
	}
}

// Ten thousand SharedVolumes of one tenant that all fail, and are woken up all the time.
func TestATenantsFailuresAreBoundedAndKeepNobodyElseFromTrying(t *testing.T) {
	p, now := NewPacer("NameTaken", "QuotaExceeded", "Forbidden", "Refused"), time.Unix(1000, 0)
	const count = 1000
	keys := make([]client.ObjectKey, count)
	for i := range keys {
		keys[i] = client.ObjectKey{Namespace: "hostile", Name: fmt.Sprint(i)}
		p.Failed(keys[i], "NameTaken", now)
	}
	other := client.ObjectKey{Namespace: "other", Name: "sv1"}
	p.Failed(other, "NameTaken", now)
	tries := 0
	const minutes = 10
	for second := range minutes * 60 {
		at := now.Add(LongestPause + time.Duration(second)*time.Second)
		for _, key := range keys {
			if p.May(key, "Creating", true, at) {
				tries++
			}
		}
		if second == 300 && !p.May(other, "NameTaken", false, at) {
			t.Error("another tenant may not try")
		}
	}
	if most := mostNamespaceTries + minutes*60*namespaceTriesPerSecond; tries > most || tries < most/2 {
		t.Errorf("%d tries in %d minutes, want at most %d", tries, minutes, most)
	}
}
