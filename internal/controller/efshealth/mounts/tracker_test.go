package mounts

import (
	"slices"
	"testing"
	"time"
)

// step is what one reading finds about a mount with a tunnel on port 20147.
type step struct {
	after   time.Duration
	stats   Stats
	no      bool // no tunnel
	process Process
	change  func(*Reading)
}

func (s step) reading(start time.Time) Reading {
	mount := Mount{Target: target(pod, first), Pod: pod, Volume: first, Device: "0:104", Port: 20147}
	reading := Reading{
		Time: start.Add(s.after), Mounts: []Mount{mount}, Stats: map[string]Stats{mount.Target: s.stats},
		States: map[int]State{20147: {Port: 20147}}, Tunnels: map[int]Process{}, Pods: map[string]Presence{pod: Present}, Kills: map[string]uint64{},
	}
	if !s.no {
		reading.Tunnels[20147] = s.process
	}
	if s.change != nil {
		s.change(&reading)
	}
	return reading
}

// play returns the kinds of problems after the last step.
func play(steps []step) ([]Kind, Report) {
	var tracker Tracker
	var report Report
	for _, step := range steps {
		report = tracker.Next(step.reading(time.Unix(1764297600, 0)))
	}
	var kinds []Kind
	for _, problem := range report.Problems {
		kinds = append(kinds, problem.Kind)
	}
	return kinds, report
}

func sent(sent, replies uint64) Stats {
	return Stats{HasLease: true, Connections: 1, Sent: sent, Replies: replies}
}

func TestOnlyAMountWithoutRepliesStalls(t *testing.T) {
	expired := sent(10, 9)
	expired.LeaseExpired = 40
	again := func(s Stats) Stats { s.Connections++; return s }
	uncounted := func(r *Reading) { clear(r.Stats) }
	for name, test := range map[string]struct {
		steps []step
		want  []Kind
	}{
		"idle":                           {[]step{{0, sent(10, 10), false, Process{}, nil}, {15 * time.Minute, sent(10, 10), false, Process{}, nil}}, nil},
		"idle after a lost reply":        {[]step{{0, sent(10, 9), false, Process{}, nil}, {15 * time.Minute, sent(10, 9), false, Process{}, nil}}, nil},
		"renewal in flight at a reading": {[]step{{0, sent(10, 10), false, Process{}, nil}, {time.Hour, sent(11, 10), false, Process{}, nil}}, nil},
		"busy": {[]step{{0, sent(10, 8), false, Process{}, nil}, {time.Minute, sent(99, 90), false, Process{}, nil},
			{2 * time.Minute, sent(199, 190), false, Process{}, nil}, {3 * time.Minute, sent(299, 290), false, Process{}, nil}}, nil},
		"a request after the last reply": {[]step{{0, sent(10, 10), false, Process{}, nil}, {time.Minute, sent(11, 10), false, Process{}, nil},
			{2 * time.Minute, sent(11, 10), false, Process{}, nil}}, []Kind{Stalled}},
		"all slots in flight at the last reply": {[]step{{0, sent(10, 10), false, Process{}, nil}, {time.Minute, sent(80, 16), false, Process{}, nil},
			{2 * time.Minute, sent(80, 16), false, Process{}, nil}, {3 * time.Minute, sent(80, 16), false, Process{}, nil}}, []Kind{Stalled}},
		"the same, and then connected again": {[]step{{0, sent(10, 10), false, Process{}, nil}, {time.Minute, sent(80, 16), false, Process{}, nil},
			{75 * time.Second, sent(80, 16), false, Process{}, nil}, {2 * time.Minute, again(sent(80, 16)), false, Process{}, nil},
			{3 * time.Minute, again(sent(80, 16)), false, Process{}, nil}}, []Kind{Stalled}},
		"answered again": {[]step{{0, sent(10, 10), false, Process{}, nil}, {time.Minute, sent(11, 10), false, Process{}, nil},
			{2 * time.Minute, sent(11, 10), false, Process{}, nil}, {3 * time.Minute, sent(12, 11), false, Process{}, nil}}, nil},
		"a request on a new connection": {[]step{{0, sent(10, 10), false, Process{}, nil}, {time.Minute, again(sent(11, 10)), false, Process{}, nil},
			{2 * time.Minute, again(sent(11, 10)), false, Process{}, nil}}, []Kind{Stalled}},
		"requests that a connection lost": {[]step{{0, sent(10, 10), false, Process{}, nil}, {time.Minute, sent(80, 16), false, Process{}, nil},
			{2 * time.Minute, again(sent(80, 16)), false, Process{}, nil}, {4 * time.Minute, again(sent(80, 16)), false, Process{}, nil}}, nil},
		"no statistics in between": {[]step{{0, sent(10, 10), false, Process{}, nil}, {time.Minute, sent(11, 10), false, Process{}, nil},
			{90 * time.Second, sent(11, 10), false, Process{}, uncounted}, {2 * time.Minute, sent(11, 10), false, Process{}, nil}}, nil},
		"no statistics any more": {[]step{{0, sent(10, 10), false, Process{}, nil}, {time.Minute, sent(11, 10), false, Process{}, nil},
			{2 * time.Minute, sent(11, 10), false, Process{}, uncounted}}, nil},
		"hung before the first reading": {[]step{{0, expired, false, Process{}, nil}}, []Kind{Stalled}},
	} {
		if got, _ := play(test.steps); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestAStallIsAsOldAsItsLease(t *testing.T) {
	stats := sent(10, 9)
	stats.LeaseExpired = 3600
	if _, report := play([]step{{stats: stats}}); len(report.Problems) != 1 || report.Problems[0].Age != time.Hour {
		t.Errorf("got %v", report.Problems)
	}
}

func TestATunnelIsDeadWhenNobodyStartsItAgain(t *testing.T) {
	unmounted := func(r *Reading) { r.States[20147] = State{Port: 20147, Unmounted: true} }
	unwatched := func(r *Reading) { delete(r.States, 20147) }
	plain := func(r *Reading) { r.Mounts[0].Port = 0 }
	for name, test := range map[string]struct {
		steps []step
		want  []Kind
	}{
		"between two tunnels":     {[]step{{}, {after: 15 * time.Second, no: true}, {after: 30 * time.Second}}, nil},
		"for half a minute":       {[]step{{}, {after: 15 * time.Second, no: true}, {after: 45 * time.Second, no: true}}, []Kind{TunnelDead}},
		"of a mount that ends":    {[]step{{no: true, change: unmounted}, {after: time.Minute, no: true, change: unmounted}}, nil},
		"nobody watches":          {[]step{{change: unwatched}, {after: time.Minute, change: unwatched}}, []Kind{TunnelUnwatched}},
		"nobody starts it again":  {[]step{{no: true, change: unwatched}, {after: time.Minute, no: true, change: unwatched}}, []Kind{TunnelDead, TunnelUnwatched}},
		"of a mount without one":  {[]step{{no: true, change: plain}, {after: time.Hour, no: true, change: plain}}, nil},
		"while it is mounted":     {[]step{{no: true, change: unwatched}}, nil},
		"and then there is a new": {[]step{{}, {after: time.Minute, no: true}, {after: 3 * time.Minute, no: true}, {after: 4 * time.Minute}}, nil},
	} {
		if got, _ := play(test.steps); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestAMountWithoutProcessesOfItsPodIsLeft(t *testing.T) {
	presence := func(p Presence) func(*Reading) { return func(r *Reading) { r.Pods[pod] = p } }
	for name, test := range map[string]struct {
		presence Presence
		after    time.Duration
		want     []Kind
	}{
		"not yet started": {Absent, time.Minute, nil}, "for long": {Absent, 11 * time.Minute, []Kind{WithoutPod}},
		"present": {Present, time.Hour, nil}, "unknown": {Unknown, time.Hour, nil},
	} {
		if got, _ := play([]step{{change: presence(test.presence)}, {after: test.after, change: presence(test.presence)}}); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestOnlyWhatHappensWhileItRunsIsCounted(t *testing.T) {
	kills := func(count uint64) func(*Reading) {
		return func(r *Reading) {
			r.Kills["driver"] = count
			// Another mount of the same file system has the same statistics.
			same := r.Mounts[0]
			same.Target, same.Port = target(pod, "pvc-same"), 0
			r.Mounts, r.Stats[same.Target] = append(r.Mounts, same), r.Stats[r.Mounts[0].Target]
		}
	}
	_, report := play([]step{
		{stats: Stats{Timeouts: 5}, process: Process{PID: 9, Start: 1}, change: kills(7)},
		{after: time.Minute, stats: Stats{Timeouts: 7}, no: true, change: kills(8)},
		{after: 2 * time.Minute, stats: Stats{Timeouts: 7}, process: Process{PID: 9, Start: 2}, change: kills(8)},
		{after: 3 * time.Minute, stats: Stats{Timeouts: 8}, process: Process{PID: 9, Start: 2}, change: kills(10)},
		{after: 4 * time.Minute, stats: Stats{Timeouts: 8}, process: Process{PID: 10, Start: 2}, change: kills(10)},
	})
	if report.Timeouts != 3 || report.Restarts != 2 || report.Kills != 3 {
		t.Errorf("got %d timeouts, %d restarts, %d kills", report.Timeouts, report.Restarts, report.Kills)
	}
}
