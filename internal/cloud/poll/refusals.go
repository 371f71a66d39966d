package poll

import "time"

// refusedPause is the time after a rejected login in which the poller does not retry the login. It is a second shorter than Interval, because a poll
// can start early.
const refusedPause = Interval - time.Second

// Refusals records rejected logins, with the reasons. A cloud can lock an account after several failed logins, even if different clients or
// configurations made these logins. So Refusals outlives the client and the configuration. It is not safe for concurrent use. The zero value is ready
// for use.
type Refusals[Login comparable, Why any] struct {
	known map[Login]refusal[Why]
}

type refusal[Why any] struct {
	at  time.Time
	why Why
}

// Of reports whether the poller must not retry a login yet. Result "why" is the reason of the refusal.
func (r *Refusals[Login, Why]) Of(login Login, now time.Time) (why Why, refused bool) {
	for other, one := range r.known {
		if now.Sub(one.at) >= refusedPause {
			delete(r.known, other)
		}
	}
	one, refused := r.known[login]
	return one.why, refused
}

// Add records a refusal. An earlier refusal of the same login stays.
func (r *Refusals[Login, Why]) Add(login Login, why Why, now time.Time) {
	if _, refused := r.Of(login, now); refused {
		return
	}
	if r.known == nil {
		r.known = map[Login]refusal[Why]{}
	}
	r.known[login] = refusal[Why]{now, why}
}
