package mounts

import (
	"context"
	"sync"
	"time"
)

// Watcher reads a node at intervals. A reading that hangs stops neither the Watcher nor Status. Until this reading ends, the Watcher starts no other
// reading.
type Watcher struct {
	// Read reads the node, see Source.
	Read func(now time.Time) (Reading, error)
	// Now tells the time.
	Now func() time.Time
	// The Watcher calls Changed with the report or the error of a reading, if the problems or the error differ from the previous reading.
	Changed func(Report, error)

	mutex  sync.Mutex
	status Status
	told   string
}

// Status is the last report, and how the readings go.
type Status struct {
	Report Report
	// Known is false before the first report.
	Known bool
	// Started is the time at which the reading in progress began. It is zero if no reading is in progress.
	Started time.Time
	// Read counts the readings with a report, and Failed the readings with an error. Skipped counts the ticks at which the previous reading still ran.
	Read, Failed, Skipped uint64
}

// Run reads the node now, and each time that a tick comes, until the context ends.
func (w *Watcher) Run(ctx context.Context, ticks <-chan time.Time) {
	var tracker Tracker
	type result struct {
		reading Reading
		err     error
	}
	results := make(chan result, 1)
	busy := false
	read := func() {
		now := w.Now()
		w.update(func(s *Status) { s.Started = now })
		busy = true
		go func() {
			reading, err := w.Read(now)
			results <- result{reading, err}
		}()
	}
	read()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			if busy {
				w.update(func(s *Status) { s.Skipped++ })
				continue
			}
			read()
		case done := <-results:
			busy = false
			w.finish(&tracker, done.reading, done.err)
		}
	}
}

func (w *Watcher) finish(tracker *Tracker, reading Reading, err error) {
	if err != nil {
		w.update(func(s *Status) { s.Started, s.Failed = time.Time{}, s.Failed+1 })
		w.tell(Report{}, err, err.Error())
		return
	}
	report := tracker.Next(reading)
	w.update(func(s *Status) { s.Report, s.Known, s.Started, s.Read = report, true, time.Time{}, s.Read+1 })
	text := ""
	for _, problem := range report.Problems {
		text += string(problem.Kind) + " " + problem.Mount.Target + "\n"
	}
	w.tell(report, nil, text)
}

// tell calls Changed if the text differs from the text of the previous call of tell.
func (w *Watcher) tell(report Report, err error, text string) {
	if text != w.told && w.Changed != nil {
		w.Changed(report, err)
	}
	w.told = text
}

func (w *Watcher) update(change func(*Status)) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	change(&w.status)
}

// Status returns the last report at once.
func (w *Watcher) Status() Status {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.status
}
