package efshealth

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

func TestAWSIsAskedByNeedAndAtMostEveryTenMinutes(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lost := errors.New("no route")
	for name, test := range map[string]struct {
		happened func(s *schedule)
		print    string
		want     time.Duration
	}{
		"at first at once":              {func(*schedule) {}, "a", 0},
		"nothing has changed":           {func(s *schedule) { s.done("a", start) }, "a", time.Hour},
		"something has changed":         {func(s *schedule) { s.done("a", start) }, "b", 10 * time.Minute},
		"something is mended elsewhere": {func(s *schedule) { s.done("a", start); s.open = true }, "a", 10 * time.Minute},
		"no answer":                     {func(s *schedule) { s.failed(start, lost, false) }, "a", time.Minute},
		"no answer for the third time": {func(s *schedule) {
			for range 3 {
				s.failed(start, lost, false)
			}
		}, "a", 4 * time.Minute},
		"no answer for a long time": {func(s *schedule) {
			for range 30 {
				s.failed(start, lost, false)
			}
		}, "a", 10 * time.Minute},
		"half an answer": {func(s *schedule) { s.failed(start, lost, true) }, "a", 10 * time.Minute},
		"no answer after a good one": {func(s *schedule) {
			s.done("a", start.Add(-9*time.Minute))
			s.failed(start, lost, false)
		}, "a", time.Minute},
		"an answer again": {func(s *schedule) {
			s.failed(start.Add(-time.Hour), lost, false)
			s.done("a", start)
		}, "a", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			var s schedule
			test.happened(&s)
			if got := max(0, s.wait(test.print, start)); got != test.want {
				t.Errorf("AWS is asked in %s, want %s", got, test.want)
			}
		})
	}
}

func TestOneFailureIsChance(t *testing.T) {
	var s schedule
	now := time.Now()
	s.failed(now, errors.New("no route"), false)
	if s.unreachable() {
		t.Error("one failure is told")
	}
	s.failed(now, errors.New("no route"), false)
	if !s.unreachable() || s.problem != "no route" {
		t.Errorf("two failures are not told: %q", s.problem)
	}
	s.done("", now)
	if s.unreachable() {
		t.Error("it is told for ever")
	}
}

// Ports and the like are others each time, and must not make a condition flap.
func TestTheReasonWhyAWSDoesNotAnswerSaysWhatToDo(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Source: &net.TCPAddr{Port: 40001}, Addr: &net.TCPAddr{Port: 443}, Err: errors.New("connection refused")}
	call := func(err error) error {
		return fmt.Errorf("check AWS: %w", &aws.Error{Action: "elasticfilesystem:DescribeFileSystems", Err: err})
	}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{call(answer("ExpiredToken")), "check AWS: elasticfilesystem:DescribeFileSystems: ExpiredToken: as the test says: the credentials are not valid " +
			"(any more); renew the Secret"},
		{call(dial), "no connection: dial: connection refused"},
		{call(answer("InternalServerError")), "check AWS: elasticfilesystem:DescribeFileSystems: InternalServerError: as the test says"},
	} {
		var s schedule
		if s.failed(at, tc.err, false); s.problem != tc.want {
			t.Errorf("it says\n%s\nwant\n%s", s.problem, tc.want)
		}
	}
}
