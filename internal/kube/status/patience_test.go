package status

import (
	"testing"
	"time"
)

func TestPausesWidenWhileNothingChanges(t *testing.T) {
	var p Patience
	start := time.Date(2026, time.November, 22, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after time.Duration
		seen  string
		want  time.Duration
	}{
		{0, "a", 15 * time.Second},
		{time.Minute, "a", 15 * time.Second},
		{4 * time.Minute, "a", time.Minute},
		{12 * time.Minute, "a", 3 * time.Minute},
		{24 * time.Hour, "a", 5 * time.Minute},
		// What is new begins anew, also if it was seen before.
		{24*time.Hour + time.Minute, "b", 15 * time.Second},
		{24*time.Hour + 2*time.Minute, "a", 15 * time.Second},
	} {
		if got := p.Pause(start.Add(step.after), step.seen); got != step.want {
			t.Errorf("after %s, %s is seen: the pause is %s, want %s", step.after, step.seen, got, step.want)
		}
	}
}

// How many looks a wait of a day costs: with a look every 15 seconds it would be 5760.
func TestAWaitOfADayCostsFewLooks(t *testing.T) {
	var p Patience
	start, looks := time.Date(2026, time.November, 22, 0, 0, 0, 0, time.UTC), 0
	for now := start; now.Sub(start) < 24*time.Hour; looks++ {
		now = now.Add(p.Pause(now, "same"))
	}
	if looks > 310 {
		t.Errorf("%d looks", looks)
	}
}
