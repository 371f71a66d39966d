package mounts

import (
	"cmp"
	"slices"
	"time"
)

// The times after which something counts as a problem.
const (
	// stalledAfter is how long a server may leave all requests of a mount without a reply. Servers of EFS answer within milliseconds.
	stalledAfter = time.Minute
	// expiredAfter is how long the lease of a mount may be expired. A client that has reconnected needs some seconds to get a new lease.
	expiredAfter = 15 * time.Second
	// tunnelAfter is how long a tunnel may be missing. efs-utils looks for its tunnels every second, and starts them again.
	tunnelAfter = 30 * time.Second
	// leftAfter is how long a mount may be without processes of its pod. The kubelet mounts volumes before it starts the pod, and unmounts them after
	// the pod has ended.
	leftAfter = 10 * time.Minute
)

// Kind is a kind of problem.
type Kind string

// The kinds of problems.
const (
	// Stalled means that the server answers no request, so programs that use the mount hang.
	Stalled Kind = "stalled"
	// TunnelDead means that the mount has no process that carries its requests.
	TunnelDead Kind = "tunnel_dead"
	// TunnelUnwatched means that efs-utils has no state file of the mount. So efs-utils would not restart the tunnel of the mount.
	TunnelUnwatched Kind = "tunnel_unwatched"
	// WithoutPod means that no process of the mount's pod lives.
	WithoutPod Kind = "without_pod"
)

// Kinds returns all kinds of problems.
func Kinds() []Kind { return []Kind{Stalled, TunnelDead, TunnelUnwatched, WithoutPod} }

// Problem is a problem of one mount. It has lasted for Age, or longer.
type Problem struct {
	Kind  Kind
	Mount Mount
	Age   time.Duration
}

// Report is what is known about a node.
type Report struct {
	Time   time.Time
	Mounts int
	// Problems are sorted by kind, the oldest first.
	Problems []Problem
	// Timeouts, Restarts and Kills count from the start of the program. Timeouts counts major timeouts of requests. Restarts counts tunnels that another
	// process replaced. Kills counts the processes that the kernel killed for lack of memory in pods with tunnels.
	Timeouts, Restarts, Kills uint64
}

// Tracker compares successive readings of a node. It keeps only what the last reading had.
type Tracker struct {
	mounts                    map[string]history
	tunnels                   map[int]Process
	kills                     map[string]uint64
	timeouts, restarts, added uint64
}

// history is what is remembered about a mount.
type history struct {
	stats Stats
	// fewest is the smallest difference between requests and replies that a reading showed on the present connection.
	fewest int64
	// waiting is the time of the first reading after the last reply that showed requests without a reply. It is zero if no request waits.
	waiting time.Time
	// since are the times at which problems began.
	since map[Kind]time.Time
}

// Next adds a reading.
func (t *Tracker) Next(reading Reading) Report {
	report := Report{Time: reading.Time, Mounts: len(reading.Mounts)}
	mounts, counted := map[string]history{}, map[string]bool{}
	for _, mount := range reading.Mounts {
		key := mount.Device + " " + mount.Target
		previous, known := t.mounts[key]
		next, problems := judge(previous, known, mount, reading)
		// Mounts of one file system can share their statistics if they have no tunnel. So the timeouts count once for each device.
		if known && !counted[mount.Device] && next.stats.Timeouts > previous.stats.Timeouts {
			t.timeouts += next.stats.Timeouts - previous.stats.Timeouts
		}
		counted[mount.Device] = true
		mounts[key] = next
		report.Problems = append(report.Problems, problems...)
	}
	t.mounts = mounts
	t.count(reading)
	report.Timeouts, report.Restarts, report.Kills = t.timeouts, t.restarts, t.added
	slices.SortFunc(report.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Age, a.Age), cmp.Compare(a.Mount.Target, b.Mount.Target))
	})
	return report
}

// count adds the tunnels that another process replaced, and the new kills, to the totals of the Tracker.
func (t *Tracker) count(reading Reading) {
	tunnels := map[int]Process{}
	for _, mount := range reading.Mounts {
		now, lives := reading.Tunnels[mount.Port]
		before, known := t.tunnels[mount.Port]
		switch {
		case mount.Port == 0:
		case lives:
			tunnels[mount.Port] = now
			if known && (now.PID != before.PID || now.Start != before.Start) {
				t.restarts++
			}
		case known:
			tunnels[mount.Port] = before
		}
	}
	t.tunnels = tunnels
	for pod, kills := range reading.Kills {
		if before, known := t.kills[pod]; known && kills > before {
			t.added += kills - before
		}
	}
	t.kills = reading.Kills
}

// judge decides what is wrong with a mount.
func judge(previous history, known bool, mount Mount, reading Reading) (history, []Problem) {
	stats, counted := reading.Stats[mount.Target]
	next := previous.answers(stats, counted, known, reading.Time)
	next.since = map[Kind]time.Time{}
	var problems []Problem
	note := func(kind Kind, seen bool, since time.Time, after time.Duration) {
		if !seen {
			return
		}
		next.since[kind] = since
		if age := reading.Time.Sub(since); age >= after {
			problems = append(problems, Problem{Kind: kind, Mount: mount, Age: age})
		}
	}
	first := func(kind Kind) time.Time {
		if since, found := previous.since[kind]; found {
			return since
		}
		return reading.Time
	}
	expired := time.Duration(min(stats.LeaseExpired, maxSeconds)) * time.Second
	if expired >= expiredAfter {
		note(Stalled, true, reading.Time.Add(-expired), expiredAfter)
	} else {
		note(Stalled, !next.waiting.IsZero(), next.waiting, stalledAfter)
	}
	if mount.Port != 0 {
		state, watched := reading.States[mount.Port]
		_, lives := reading.Tunnels[mount.Port]
		note(TunnelDead, !lives && !state.Unmounted, first(TunnelDead), tunnelAfter)
		note(TunnelUnwatched, !watched, first(TunnelUnwatched), tunnelAfter)
	}
	note(WithoutPod, reading.Pods[mount.Pod] == Absent, first(WithoutPod), leftAfter)
	return next, problems
}

// maxSeconds keeps a number of the kernel within a time.Duration.
const maxSeconds = 1 << 32

// answers returns the next history, which shows whether requests wait for a reply. A connection that ends can lose requests, and the client sends
// these requests again on the next connection. So Sent can stay larger than Replies for ever, although no request waits. If no reply has come since
// the last reading, requests wait in two cases: the client has sent more requests since, or the difference is larger than the smallest difference on
// the same connection.
func (h history) answers(stats Stats, counted, known bool, now time.Time) history {
	missing := int64(stats.Sent) - int64(stats.Replies) //nolint:gosec // No client sends 2^63 requests.
	next := history{stats: stats, fewest: missing, waiting: h.waiting}
	if known && stats.Connections == h.stats.Connections {
		next.fewest = min(missing, h.fewest)
	}
	switch {
	case !counted:
		return history{}
	case !known || stats.Replies != h.stats.Replies:
		next.waiting = time.Time{}
	case h.waiting.IsZero() && (stats.Sent > h.stats.Sent || missing > next.fewest):
		next.waiting = now
	}
	return next
}
