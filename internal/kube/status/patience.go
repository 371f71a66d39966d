package status

import "time"

const (
	// LeastPause is the shortest time between two looks at what nothing is watched for.
	LeastPause = 15 * time.Second
	// MostPause is the longest one.
	MostPause = 5 * time.Minute
)

// Patience widens the pauses between looks at what is not watched, while it stays the same. The zero value is ready for use.
type Patience struct {
	seen  string
	since time.Time
}

// Pause is when to look again after something was seen: a quarter of the time for which it has been the same, between LeastPause and MostPause.
func (p *Patience) Pause(now time.Time, seen string) time.Duration {
	if p.since.IsZero() || p.seen != seen {
		p.seen, p.since = seen, now
	}
	return min(max(now.Sub(p.since)/4, LeastPause), MostPause)
}
