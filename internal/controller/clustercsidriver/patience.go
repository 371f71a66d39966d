package clustercsidriver

import "time"

const (
	// leastPause is the shortest time between two looks at pods that nothing is watched for.
	leastPause = 15 * time.Second
	// mostPause is the longest one.
	mostPause = 5 * time.Minute
)

// patience widens the pauses between looks at what is not watched, while it stays the same.
type patience struct {
	seen  string
	since time.Time
}

// pause is when to look again after something was seen: a quarter of the time for which it has been the same.
func (p *patience) pause(now time.Time, seen string) time.Duration {
	if p.since.IsZero() || p.seen != seen {
		p.seen, p.since = seen, now
	}
	return min(max(now.Sub(p.since)/4, leastPause), mostPause)
}
