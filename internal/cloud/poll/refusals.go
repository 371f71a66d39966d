package poll

import "time"

// refusedPause is how long a refused login is not tried again: until the poll after the next Interval, which may begin a moment early.
const refusedPause = Interval - time.Second

// Refusals remember which logins a cloud has refused, and why. A cloud that is asked too often with a wrong password locks the account for all who
// use it. Neither another client nor another configuration changes that, so that Refusals outlive both. They are of one goroutine. The zero value
// is ready for use.
type Refusals[Login comparable, Why any] struct {
	known map[Login]refusal[Why]
}

type refusal[Why any] struct {
	at  time.Time
	why Why
}

// Of says why a login is not to be tried now.
func (r *Refusals[Login, Why]) Of(login Login, now time.Time) (why Why, refused bool) {
	for other, one := range r.known {
		if now.Sub(one.at) >= refusedPause {
			delete(r.known, other)
		}
	}
	one, refused := r.known[login]
	return one.why, refused
}

// Add remembers a refusal. One that is known already stays as it is.
func (r *Refusals[Login, Why]) Add(login Login, why Why, now time.Time) {
	if _, refused := r.Of(login, now); refused {
		return
	}
	if r.known == nil {
		r.known = map[Login]refusal[Why]{}
	}
	r.known[login] = refusal[Why]{now, why}
}
