package poll

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestThePauseGrowsWithFailuresUpToTheInterval(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: Interval, 1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute, 4: 4 * time.Minute, 5: Interval, 9: Interval, 100: Interval, 1 << 40: Interval,
	} {
		if got := Pause(failures); got != want {
			t.Errorf("%d failures: %s, want %s", failures, got, want)
		}
	}
}

func TestClustersDoNotAskAtTheSameTime(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		pause := Lengthen(Interval, nil)
		if seen[pause] = true; pause < Interval || pause > Interval+Interval/10 {
			t.Errorf("%s", pause)
		}
	}
	if len(seen) < 2 {
		t.Error("it is always the same")
	}
	if got := Lengthen(Interval, func(pause time.Duration) time.Duration { return 2 * pause }); got != 2*Interval {
		t.Errorf("by another rule: %s", got)
	}
}

func TestACloudIsAskedWithOtherInputsAtOnceAndElseInTime(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &Schedule{}
	for _, step := range []struct {
		what string
		do   func()
		want string
		// other and wait are Due's expected results.
		other bool
		wait  time.Duration
	}{
		{"nobody has said anything", func() {}, "", false, 0},
		{"inputs", func() { s.SetInputs("a") }, "a", true, 0},
		{"no time was said", func() {}, "a", false, 0},
		{"it was asked", func() { s.AskAt(now.Add(Interval)) }, "a", false, Interval},
		{"the same inputs", func() { s.SetInputs("a") }, "a", false, Interval},
		{"time passes", func() { now = now.Add(time.Minute) }, "a", false, 4 * time.Minute},
		{"sooner", func() { s.AskBefore(now.Add(20 * time.Second)) }, "a", false, 20 * time.Second},
		{"no later", func() { s.AskBefore(now.Add(30 * time.Second)) }, "a", false, 20 * time.Second},
		{"later all the same", func() { s.AskAt(now.Add(time.Minute)) }, "a", false, time.Minute},
		{"other inputs", func() { s.SetInputs("b") }, "b", true, 0},
		{"they are not others twice", func() {}, "b", false, time.Minute},
		{"there and back", func() { s.SetInputs("a"); s.SetInputs("b") }, "b", false, time.Minute},
		{"none", func() { s.SetInputs("") }, "", true, 0},
		{"the same again", func() { s.SetInputs("b") }, "b", true, 0},
		{"it is time", func() { now = now.Add(time.Hour) }, "b", false, 0},
	} {
		step.do()
		if hash, other, wait := s.Due(now); hash != step.want || other != step.other || wait != step.wait {
			t.Errorf("%s: %q, others %t, wait %s", step.what, hash, other, wait)
		}
	}
}

func TestRunTicksInTimeAndWheneverThereIsNewsUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Schedule{}
		ctx, cancel := context.WithCancel(t.Context())
		begin, first, ended := time.Now(), true, make(chan struct{})
		ticks := make(chan time.Duration, 10)
		go func() {
			defer close(ended)
			s.Run(ctx, func(context.Context) time.Duration {
				ticks <- time.Since(begin)
				if first {
					first = false
					// Any number of changes during a tick cause exactly one more tick.
					for _, hash := range []string{"a", "b", "c"} {
						s.SetInputs(hash)
					}
				}
				return time.Minute
			})
		}()
		expect := func(what string, want ...time.Duration) {
			t.Helper()
			synctest.Wait()
			var got []time.Duration
			for len(ticks) > 0 {
				got = append(got, <-ticks)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: ticks at %v, want %v", what, got, want)
			}
		}
		expect("at the beginning", 0, 0)
		<-time.After(2 * time.Minute)
		expect("in two minutes", time.Minute, 2*time.Minute)
		<-time.After(time.Second)
		s.AskAt(time.Now().Add(time.Hour))
		s.SetInputs("c")
		s.AskBefore(time.Now().Add(2 * time.Hour))
		expect("without news")
		s.AskBefore(time.Now())
		expect("sooner", 121*time.Second)
		s.SetInputs("d")
		expect("with other inputs", 121*time.Second)
		cancel()
		<-ended
		s.SetInputs("e")
		expect("after the end")
	})
}
