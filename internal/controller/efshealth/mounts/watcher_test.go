package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAReadingThatHangsHidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		reads, changes := 0, 0
		watcher := Watcher{
			Now: time.Now, Changed: func(Report, error) { changes++ },
			Read: func(now time.Time) (Reading, error) {
				reads++
				if reads == 2 {
					<-hang
				}
				return step{}.reading(now), nil
			},
		}
		ticks := make(chan time.Time)
		go watcher.Run(t.Context(), ticks)
		synctest.Wait()
		for range 4 {
			ticks <- time.Now()
			synctest.Wait()
		}
		status := watcher.Status()
		if reads != 2 || status.Read != 1 || status.Skipped != 3 || status.Started.IsZero() || !status.Known || status.Report.Mounts != 1 {
			t.Errorf("%d readings, status %+v", reads, status)
		}
		close(hang)
		synctest.Wait()
		if status := watcher.Status(); status.Read != 2 || !status.Started.IsZero() {
			t.Errorf("after the end: %+v", status)
		}
		if changes != 0 {
			t.Errorf("%d changes, although nothing is wrong", changes)
		}
	})
}

func TestAnErrorIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		watcher := Watcher{
			Now: time.Now, Read: func(time.Time) (Reading, error) { return Reading{}, errors.New("no access") },
			Changed: func(_ Report, err error) { told = append(told, err.Error()) },
		}
		ticks := make(chan time.Time)
		go watcher.Run(t.Context(), ticks)
		for range 3 {
			synctest.Wait()
			ticks <- time.Now()
		}
		synctest.Wait()
		if status := watcher.Status(); len(told) != 1 || status.Failed != 4 || status.Known {
			t.Errorf("told %q, status %+v", told, status)
		}
	})
}

func TestANodeHasABoundedNumberOfSeries(t *testing.T) {
	var report Report
	for _, kind := range Kinds() {
		for i := range 500 {
			report.Problems = append(report.Problems, Problem{kind, Mount{Pod: pod, Volume: fmt.Sprintf("\"%d\n", i)}, time.Hour - time.Duration(i)*time.Second})
		}
	}
	report.Mounts, report.Time = 2000, time.Unix(1764297600, 0)
	var text bytes.Buffer
	if err := WriteMetrics(&text, Status{Report: report, Known: true, Read: 3}, report.Time.Add(7*time.Second)); err != nil {
		t.Fatal(err)
	}
	series := 0
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			series++
		}
	}
	if want := 3 + 2 + len(Kinds())*(1+mostNamed) + 3; series != want {
		t.Errorf("%d series, want %d", series, want)
	}
	for _, want := range []string{
		`efs_node_mount_problem_seconds{problem="stalled",volume="\"0\n",pod_uid="` + pod + `"} 3600`,
		`efs_node_mount_problems{problem="tunnel_dead"} 500`, "efs_node_mounts 2000", "efs_node_report_age_seconds 7",
	} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func TestBeforeTheFirstReportNothingIsKnown(t *testing.T) {
	var text bytes.Buffer
	if err := WriteMetrics(&text, Status{Failed: 2}, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); strings.Contains(got, MetricMounts) || !strings.Contains(got, `efs_node_readings_total{result="failed"} 2`) {
		t.Error(got)
	}
}
