package status

import "time"

const (
	// LeastPause is the shortest pause between two polls.
	LeastPause = 15 * time.Second
	// MostPause is the longest pause between two polls.
	MostPause = 5 * time.Minute
)

// Patience makes polls of a state without a watch rarer, the longer the state stays the same. The zero value is ready for use.
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
