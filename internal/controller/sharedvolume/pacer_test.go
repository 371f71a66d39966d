package sharedvolume

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Hundreds wait for one thing, such as a list. When it comes, they are made at once.
func TestWhatWasWaitedForTakesNoTry(t *testing.T) {
	p, now := newPacer(), time.Unix(1000, 0)
	for i := range 1000 {
		key := client.ObjectKey{Namespace: "ns", Name: fmt.Sprint(i)}
		p.failed(key, "NotAllowed", now)
		if !p.may(key, plan{reason: "Creating", do: &change{what: createVolume}}, now) {
			t.Fatalf("number %d may not be made", i)
		}
	}
}

func TestAFailureIsTriedAgainAtGrowingIntervals(t *testing.T) {
	p, now := newPacer(), time.Unix(1000, 0)
	key := client.ObjectKey{Namespace: "ns", Name: "sv1"}
	creating := plan{reason: "Creating", do: &change{what: createVolume}}
	for _, want := range []time.Duration{30, 60, 120, 240, 480, 600, 600} {
		if !p.may(key, plan{reason: "NameTaken", look: lookLive}, now) {
			t.Fatalf("it is due after %s, and may not be tried", want)
		}
		if got := p.failed(key, "NameTaken", now); got != want*time.Second {
			t.Errorf("the next try in %s, want %ds", got, want)
		}
		if p.may(key, plan{reason: "NameTaken", look: lookLive}, now.Add(time.Second)) {
			t.Error("tried again although nothing is new")
		}
		if got := p.failed(key, "NameTaken", now.Add(time.Second)); got != want*time.Second-time.Second {
			t.Errorf("looked at before it was due, the next try is in %s", got)
		}
		now = now.Add(want * time.Second)
	}
	if !p.may(key, creating, now.Add(-time.Second)) {
		t.Error("what has changed is not looked at")
	}
	if got := p.failed(key, "QuotaExceeded", now); got != firstPause {
		t.Errorf("another reason waits for %s", got)
	}
	p.settled(key)
	if len(p.failing) != 0 {
		t.Errorf("%d namespaces are remembered for nothing", len(p.failing))
	}
	if got := p.failed(key, "QuotaExceeded", now); got != firstPause {
		t.Errorf("after it was well, it waits for %s", got)
	}
}

// Ten thousand SharedVolumes of one tenant that all fail, and are woken up all the time.
func TestATenantsFailuresAreBoundedAndKeepNobodyElseFromTrying(t *testing.T) {
	p, now := newPacer(), time.Unix(1000, 0)
	const count = 10000
	keys := make([]client.ObjectKey, count)
	for i := range keys {
		keys[i] = client.ObjectKey{Namespace: "hostile", Name: fmt.Sprint(i)}
		p.failed(keys[i], "NameTaken", now)
	}
	other := client.ObjectKey{Namespace: "other", Name: "sv1"}
	p.failed(other, "NameTaken", now)
	tries, creating := 0, plan{reason: "Creating", do: &change{what: createVolume}}
	const minutes = 10
	for second := range minutes * 60 {
		at := now.Add(longestPause + time.Duration(second)*time.Second)
		for _, key := range keys {
			if p.may(key, creating, at) {
				tries++
			}
		}
		if second == 300 && !p.may(other, plan{reason: "NameTaken", look: lookLive}, at) {
			t.Error("another tenant may not try")
		}
	}
	if most := mostNamespaceTries + minutes*60*namespaceTriesPerSecond; tries > most || tries < most/2 {
		t.Errorf("%d tries in %d minutes, want at most %d", tries, minutes, most)
	}
}
