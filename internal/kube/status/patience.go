package status

import "time"

const (
	// LeastPause is the shortest pause between two polls.
	LeastPause = 15 * time.Second
	// MostPause is the longest pause between two polls.
	MostPause = 5 * time.Minute
)

// Patience makes the pauses between polls longer, the longer the polled state stays the same. It is for states that the operator does not watch. The
// zero value is ready for use.
type Patience struct {
	seen  string
	since time.Time
}

// Pause returns the time until the next poll. It is a quarter of the time for which the state has been the same, but between LeastPause and
// MostPause.
func (p *Patience) Pause(now time.Time, seen string) time.Duration {
	if p.since.IsZero() || p.seen != seen {
		p.seen, p.since = seen, now
	}
	return min(max(now.Sub(p.since)/4, LeastPause), MostPause)
}
