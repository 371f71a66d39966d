package efshealth

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/cloud/poll"
)

func TestAWSIsAskedByNeedAndAtMostEveryTenMinutes(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lost := errors.New("no route")
	done := func(f facts, fingerprint string, at time.Time) facts {
		return f.merge(&snapshot{fingerprint: fingerprint, at: at}, denials{}, nil, at)
	}
	failed := func(f facts, times int, at time.Time) facts {
		for range times {
			f = f.merge(&snapshot{}, denials{}, lost, at)
		}
		return f
	}
	open := done(facts{}, "a", start)
	open.open = true
	for name, test := range map[string]struct {
		known facts
		print string
		want  time.Duration
	}{
		"at first at once":              {facts{}, "a", 0},
		"nothing has changed":           {done(facts{}, "a", start), "a", time.Hour},
		"something has changed":         {done(facts{}, "a", start), "b", 10 * time.Minute},
		"something is mended elsewhere": {open, "a", 10 * time.Minute},
		"no answer":                     {failed(facts{}, 1, start), "a", time.Minute},
		"no answer for the third time":  {failed(facts{}, 3, start), "a", 4 * time.Minute},
		"no answer for a long time":     {failed(facts{}, 30, start), "a", 10 * time.Minute},
		"half an answer":                {facts{}.merge(&snapshot{systems: map[string]string{}}, denials{}, lost, start), "a", 10 * time.Minute},
		"no answer after a good one":    {failed(done(facts{}, "a", start.Add(-9*time.Minute)), 1, start), "a", time.Minute},
		"an answer again":               {done(failed(facts{}, 1, start.Add(-time.Hour)), "a", start), "a", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			if got := max(0, test.known.next(test.print).Sub(start)); got != test.want {
				t.Errorf("AWS is asked in %s, want %s", got, test.want)
			}
		})
	}
}

func TestOneFailureIsChance(t *testing.T) {
	now, lost := time.Now(), errors.New("no route")
	once := facts{}.merge(&snapshot{}, denials{}, lost, now)
	if once.unreachable() {
		t.Error("one failure is told")
	}
	twice := once.merge(&snapshot{}, denials{}, lost, now)
	if !twice.unreachable() || twice.problem != "no route" {
		t.Errorf("two failures are not told: %q", twice.problem)
	}
	if twice.merge(&snapshot{}, denials{}, nil, now).unreachable() {
		t.Error("it is told for ever")
	}
}

// A condition about a closed mount target does not end because one request failed. What is unknown for longer is not reported as known.
func TestOneFailedRequestAboutTheNetworkHidesNoFinding(t *testing.T) {
	used, closed := closedNetwork()
	now, failing := time.Now(), func() *snapshot {
		_, seen := closedNetwork()
		seen.network, seen.networkFailed = nil, true
		return seen
	}
	known := facts{}.merge(closed, denials{}, nil, now)
	for i, want := range []bool{true, false, false} {
		known = known.merge(failing(), denials{}, nil, now)
		found := slices.ContainsFunc(evaluate(used, known.seen, circumstances{limit: 1000}), func(one finding) bool { return one.problem == mountTargetClosed })
		r := &Reconciler{facts: known}
		if found != want || r.evaluated(mountTargetClosed) != want {
			t.Errorf("after %d failures: found %v, known %v, want %v", i+1, found, r.evaluated(mountTargetClosed), want)
		}
	}
	_, closed = closedNetwork()
	if known = known.merge(closed, denials{}, nil, now); known.seen.network == nil {
		t.Error("the network stays unknown after an answer")
	}
}

// A change in the cluster wakes the poller, but the poller sends no request to AWS before the pause that the facts require is over.
func TestThePollerWaitsAsLongAsTheFactsSay(t *testing.T) {
	r, _ := newReconciler(t)
	cloud, now := account(), at
	r.setClock(func() time.Time { return now })
	used := uses{volumes: inUse().volumes[:1]}
	for _, step := range []struct {
		what  string
		after time.Duration
		to    subject
		open  bool
		lists int
		wait  time.Duration
	}{
		{"nobody wants anything", 0, subject{}, false, 0, poll.Interval},
		{"at first at once", 0, subject{cloud: cloud, used: used}, false, 1, longInterval},
		{"nothing is new", time.Minute, subject{cloud: cloud, used: used}, false, 1, longInterval - time.Minute},
		{"something is wrong in AWS", 0, subject{cloud: cloud, used: used}, true, 1, shortInterval - time.Minute},
		{"nobody wants it any more", 0, subject{}, false, 1, poll.Interval},
		{"somebody wants it again", time.Minute, subject{cloud: cloud, used: used}, false, 1, shortInterval - 2*time.Minute},
		{"other credentials", 0, subject{cloud: &counted{}, used: used}, false, 1, shortInterval - 2*time.Minute},
		{"the first ones again, later", shortInterval, subject{cloud: cloud, used: used}, false, 2, longInterval},
	} {
		now = now.Add(step.after)
		r.poller.configure(step.to)
		r.poller.plan(step.open)
		wait := r.poller.Tick(t.Context())
		lists := 0
		for _, request := range cloud.asked {
			if request == "list" {
				lists++
			}
		}
		if wait != step.wait || lists != step.lists {
			t.Errorf("%s: %d polls, the next in %s; want %d and %s", step.what, lists, wait, step.lists, step.wait)
		}
	}
}

// Answers to credentials that have gone meanwhile are not kept, and still count as asked.
func TestAnAnswerThatNobodyWantsIsDropped(t *testing.T) {
	used := uses{volumes: inUse().volumes[:1]}
	old, mute := subject{cloud: account(), used: used}, subject{cloud: &counted{err: errors.New("no route")}, used: used}
	for name, tc := range map[string]struct {
		old, now subject
		seen     bool
		next     time.Duration
	}{
		"the same":                   {old, old, true, longInterval},
		"nobody asks":                {old, subject{}, false, shortInterval},
		"other credentials":          {old, subject{cloud: account(), used: used}, false, time.Second},
		"no answer, and others help": {mute, old, false, time.Second},
	} {
		r, _ := newReconciler(t)
		r.poller.configure(tc.now)
		if got := r.poller.poll(t.Context(), tc.old); got != tc.next || (r.poller.facts.seen != nil) != tc.seen {
			t.Errorf("%s: again in %s, seen %+v", name, got, r.poller.facts.seen)
		}
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
		{call(answer("ExpiredToken")), "check AWS: elasticfilesystem:DescribeFileSystems: ExpiredToken: as the test says: the credentials are invalid " +
			"or expired; renew the Secret"},
		{call(dial), "no connection: dial: connection refused"},
		{call(answer("InternalServerError")), "check AWS: elasticfilesystem:DescribeFileSystems: InternalServerError: as the test says"},
	} {
		if got := reasonOf(tc.err); got != tc.want {
			t.Errorf("it says\n%s\nwant\n%s", got, tc.want)
		}
	}
}
