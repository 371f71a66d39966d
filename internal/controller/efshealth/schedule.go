package efshealth

import (
	"errors"
	"net"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

const (
	// atMost is how often AWS is asked at most: while something is wrong that is mended there, and when something has changed.
	atMost = 10 * time.Minute
	// seldom is how often AWS is asked while nothing has changed in the cluster: a problem in AWS causes no event.
	seldom = time.Hour
	// firstPause is the pause after a failure, which doubles up to atMost.
	firstPause  = time.Minute
	pollTimeout = 5 * time.Minute
)

// schedule says when to ask AWS.
type schedule struct {
	// last is when AWS was asked with success, and asked the fingerprint of what it was asked about.
	last  time.Time
	asked string
	// open is true while something is wrong that is mended in AWS.
	open bool
	// tried is when AWS was asked in vain, problem why, failures how often in a row, pause how long to wait since then.
	tried    time.Time
	problem  string
	failures int
	pause    time.Duration
}

// wait is how long not to ask AWS; at most 0 if it is time.
func (s *schedule) wait(fingerprint string, now time.Time) time.Duration {
	var next time.Time
	switch {
	case s.last.IsZero():
	case s.open || s.asked != fingerprint || s.failures > 0:
		next = s.last.Add(atMost)
	default:
		next = s.last.Add(seldom)
	}
	if retry := s.tried.Add(s.pause); s.failures > 0 && retry.After(next) {
		next = retry
	}
	return next.Sub(now)
}

// done says that AWS has answered.
func (s *schedule) done(fingerprint string, at time.Time) {
	*s = schedule{last: at, asked: fingerprint, open: s.open}
}

// failed says that it has not, or has not answered everything.
func (s *schedule) failed(at time.Time, err error, partly bool) {
	if partly {
		s.last = at
	}
	s.failures++
	s.tried, s.problem, s.pause = at, reasonOf(err), min(max(2*s.pause, firstPause), atMost)
}

// unreachable is true if AWS did not answer twice in a row: once can be chance.
func (s *schedule) unreachable() bool { return s.failures > 1 }

// reasonOf says why AWS can't be asked, with what to do where that is known. Ports and the like, which are others each time, are left
// out.
func reasonOf(err error) string {
	var network *net.OpError
	switch {
	case aws.IsInvalidCredentials(err):
		return err.Error() + ": the credentials are not valid (any more); renew the Secret"
	case errors.As(err, &network):
		return "no connection: " + network.Op + ": " + network.Err.Error()
	default:
		return err.Error()
	}
}
