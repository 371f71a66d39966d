package vsphere_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vmware/govmomi/simulator"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// run advances the clock, ticks whenever a tick is due, and returns the number of ticks.
func (s *scene) run(duration time.Duration) int {
	s.t.Helper()
	ticks := 0
	for end := s.clock.now().Add(duration); ; ticks++ {
		wait := s.Tick(s.t.Context())
		if wait <= 0 {
			s.t.Fatalf("tick %d: wait %s", ticks, wait)
		}
		if !s.clock.now().Add(wait).Before(end) {
			s.clock.pass(end.Sub(s.clock.now()))
			return ticks + 1
		}
		s.clock.pass(wait)
	}
}

func TestIdleMeansNoRequestButTheSchedules(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	s.tick()
	s.clock.pass(vsphere.Interval)
	c.reset()
	ticks := s.run(time.Hour)
	// A poll sends requests for the inventory, tasks, privileges and categories, and two for policies.
	if ticks != 12 || c.requests("") != 12*6 || s.woken != 1 || s.reads != 1 {
		t.Errorf("%d polls, %d requests, %d wakes, %d reads of the Source: %v", ticks, c.requests(""), s.woken, s.reads, c.counts)
	}
	c.reset()
	for range 100 {
		s.clock.pass(time.Millisecond)
		s.Tick(t.Context())
	}
	if c.requests("") > 6 {
		t.Errorf("%d requests at one moment", c.requests(""))
	}
}

func TestAChangeInAVCenterWakes(t *testing.T) {
	c := startCenter(t, 1, severalHosts)
	s := newScene(t, c)
	s.tick()
	for what, tc := range map[string]struct {
		do    func()
		wakes int
	}{
		"nothing": {func() {}, 0},
		"a host": {func() {
			change(t, c, "HostSystem", "DC0_C0_H1", func(h *simulator.HostSystem) { h.Config.Product.Version = "6.5.0" })
		}, 1},
		"free space": {func() {
			change(t, c, "Datastore", "LocalDS_0", func(d *simulator.Datastore) { d.Summary.FreeSpace -= 1 << 20 })
		}, 0},
		"much free space": {func() {
			change(t, c, "Datastore", "LocalDS_0", func(d *simulator.Datastore) { d.Summary.FreeSpace /= 2 })
		}, 1},
	} {
		woken := s.woken
		tc.do()
		s.clock.pass(vsphere.Interval)
		if s.tick(); s.woken != woken+tc.wakes {
			t.Errorf("%s: %d wakes", what, s.woken-woken)
		}
	}
}

func TestThePauseGrowsWithErrorsAndEndsWithThem(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	c.setFault(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		wait := s.Tick(t.Context())
		if wait != want {
			t.Errorf("pause %d is %s, want %s", i, wait, want)
		}
		// PollSoon does not shorten the pause after errors.
		s.clock.pass(wait - time.Second)
		if s.PollSoon(); s.Tick(t.Context()) != time.Second {
			t.Errorf("pause %d got shorter", i)
		}
		s.clock.pass(time.Second)
	}
	if seen := s.only(); !seen.Answered.IsZero() || seen.Err == nil || s.woken != 1 {
		t.Errorf("%+v, %d wakes", seen, s.woken)
	}
	c.setFault(nil)
	if wait := s.tick(); wait != vsphere.Interval || s.woken != 2 {
		t.Errorf("the next poll is in %s, %d wakes", wait, s.woken)
	}
}

func TestAgainPollsSoonButNotAtOnce(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	s.PollSoon()
	s.tick()
	c.reset()
	for range 100 {
		s.PollSoon()
		s.Tick(t.Context())
	}
	if wait := s.Tick(t.Context()); c.requests("") != 0 || wait != vsphere.Soon {
		t.Errorf("%d requests, the next poll is in %s", c.requests(""), wait)
	}
	s.clock.pass(vsphere.Soon)
	if wait := s.tick(); c.requests("") == 0 || wait != vsphere.Interval {
		t.Errorf("%d requests, the next poll is in %s", c.requests(""), wait)
	}
	s.clock.pass(time.Minute)
	c.reset()
	s.PollSoon()
	if s.tick(); c.requests("") == 0 {
		t.Error("a minute after the last poll, nothing is asked")
	}
}

func TestAtOncePollsAtOnce(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	s.tick()
	c.reset()
	s.PollNow()
	if wait := s.tick(); c.requests("") == 0 || wait != vsphere.Interval {
		t.Errorf("%d requests, the next poll is in %s", c.requests(""), wait)
	}
}

func TestAfterGetsWritersOfThoseThatAnswered(t *testing.T) {
	one, two := startCenter(t, 1, nil), startCenter(t, 2, nil)
	s := newScene(t, one, two)
	two.setFault(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	calls, again := 0, true
	s.After = func(_ context.Context, seen vsphere.Snapshot, want vsphere.Want, writers map[string]vsphere.Writer) bool {
		calls++
		if len(seen.VCenters) != 2 || len(writers) != 1 || writers[one.host] == nil || want.InfrastructureID != "infra" || len(s.Snapshot().VCenters) != 2 {
			t.Errorf("%+v, %v, %+v", seen, writers, want)
		}
		return again
	}
	if wait := s.Tick(t.Context()); wait != vsphere.Soon || calls != 1 {
		t.Errorf("the next poll is in %s, %d calls", wait, calls)
	}
	again = false
	s.clock.pass(vsphere.Soon)
	if wait := s.Tick(t.Context()); wait != time.Minute || calls != 2 {
		t.Errorf("the next poll is in %s, %d calls", wait, calls)
	}
}

func TestWithoutInputsNobodyIsAskedTheSessionEndsAndNothingIsKnown(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	s.SetInputs("")
	if s.run(time.Hour); c.requests("") != 0 || s.reads != 0 || len(s.Snapshot().VCenters) != 0 {
		t.Errorf("%v", c.counts)
	}
	s.SetInputs("first")
	s.tick()
	s.SetInputs("")
	for range 3 {
		s.Tick(t.Context())
	}
	if c.requests("Logout") != 1 || c.requests("DELETE /session") != 1 || len(s.Snapshot().VCenters) != 0 || !s.Snapshot().Taken.IsZero() || s.woken != 2 {
		t.Errorf("%v, %d wakes: %+v", c.counts, s.woken, s.Snapshot())
	}
	s.SetInputs("first")
	c.reset()
	if s.tick(); c.requests("Login") != 1 || s.only().Version == "" || s.woken != 3 {
		t.Errorf("the inputs are back: %v, %d wakes", c.counts, s.woken)
	}
}

func TestAnotherConfigurationEndsOnlyTheSessionsThatChange(t *testing.T) {
	one, two, three := startCenter(t, 1, nil), startCenter(t, 2, nil), startCenter(t, 3, nil)
	s := newScene(t, one, two, three)
	registry := prometheus.NewRegistry()
	metrics, err := vsphere.NewMetrics(registry, "csi.vsphere.vmware.com")
	must(t, err)
	s.Metrics = metrics
	s.tick()
	s.config.VCenters = s.config.VCenters[1:]
	s.config.VCenters[0].Datacenters = nil
	s.SetInputs("second")
	s.tick()
	if seen := s.Snapshot(); len(seen.VCenters) != 2 || seen.VCenters[0].Server != two.host || one.requests("Logout") != 1 || two.requests("Logout") != 1 ||
		two.requests("Login") != 2 || three.requests("Logout") != 0 || three.requests("Login") != 1 {
		t.Errorf("%v %v %v", one.counts, two.counts, three.counts)
	}
	families, err := registry.Gather()
	must(t, err)
	series := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			series++
			for _, label := range metric.GetLabel() {
				if label.GetValue() == one.host {
					t.Errorf("%s has the vCenter that is gone", family.GetName())
				}
			}
			if family.GetName() == poll.MetricAnswered && metric.GetGauge().GetValue() != float64(s.clock.now().Unix()) {
				t.Errorf("%v", metric)
			}
		}
	}
	// Each vCenter has a time and counts by outcome; a fault has status 500.
	if series != 4 {
		t.Errorf("%d series", series)
	}
	// A change of CAs ends all sessions.
	s.roots = append(s.roots, one.ca...)
	s.SetInputs("third")
	if s.tick(); three.requests("Logout") != 1 || three.requests("Login") != 2 {
		t.Errorf("%v", three.counts)
	}
}

func TestMetricsHaveFewSeries(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	registry := prometheus.NewRegistry()
	metrics, err := vsphere.NewMetrics(registry, "csi.vsphere.vmware.com")
	must(t, err)
	if _, err := vsphere.NewMetrics(registry, "csi.vsphere.vmware.com"); err == nil {
		t.Error("they are registered twice")
	}
	s.Metrics = metrics
	for code := range 400 {
		c.setFault(func(w http.ResponseWriter, _ *http.Request, asked string) bool {
			if asked != "GET /tagging/category " {
				return false
			}
			w.WriteHeader(code + 200)
			return true
		})
		if code%17 == 0 || code > 198 && code < 206 {
			s.run(vsphere.Interval)
		}
	}
	c.server.Close()
	s.run(vsphere.Interval)
	families, err := registry.Gather()
	must(t, err)
	series := 0
	for _, family := range families {
		series += len(family.GetMetric())
	}
	if series < 6 || series > 8 {
		t.Errorf("%d series", series)
	}
}

func TestInputsThatCanNotBeUsedAreToldOfAllVCenters(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	good := s.Source
	s.Source = func(context.Context) (cloudconfig.Config, map[string]cloudconfig.Login, []byte, error) {
		_, err := cloudconfig.Parse([]byte("[Global]\npassword=s3cret-p4ss\n"))
		return cloudconfig.Config{}, nil, nil, err
	}
	failure := s.fails()
	if failure.Reason != cloudconfig.InvalidConfiguration || s.only().Server != "" || c.requests("") != 0 {
		t.Errorf("%v: %+v", failure, s.Snapshot())
	}
	s.Source = good
	s.clock.pass(30 * time.Second)
	s.tick()
	// A known vCenter keeps its last answer.
	s.Source = func(context.Context) (cloudconfig.Config, map[string]cloudconfig.Login, []byte, error) {
		_, err := cloudconfig.Logins(s.config, nil)
		return s.config, nil, nil, err
	}
	s.SetInputs("second")
	failure = s.fails()
	if failure.Reason != cloudconfig.InvalidCredentials || s.only().Server != c.host || s.only().Version == "" || !strings.Contains(failure.Error(), "127.0.0.1.username") {
		t.Errorf("%v: %+v", failure, s.Snapshot())
	}
	s.Source = func(context.Context) (cloudconfig.Config, map[string]cloudconfig.Login, []byte, error) {
		return cloudconfig.Config{}, nil, nil, errors.New("the API server is away")
	}
	s.SetInputs("third")
	if failure = s.fails(); failure.Reason != cloudconfig.InvalidCredentials || !strings.Contains(failure.Error(), "the API server is away") {
		t.Error(failure)
	}
	s.Source = func(context.Context) (cloudconfig.Config, map[string]cloudconfig.Login, []byte, error) {
		return s.config, nil, s.roots, nil
	}
	s.SetInputs("fourth")
	if failure = s.fails(); failure.Reason != cloudconfig.InvalidCredentials || !strings.Contains(failure.Error(), "user and password of this vCenter are missing") {
		t.Error(failure)
	}
	s.Source = good
	s.SetInputs("fifth")
	s.tick()
}

func TestAWantThatCanNotBeReadPutsThePollOff(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	good := s.Want
	s.Want = func(context.Context) (vsphere.Want, error) {
		return vsphere.Want{}, errors.New("the API server is away")
	}
	if wait := s.Tick(t.Context()); wait != 30*time.Second || c.requests("") != 0 || s.woken != 0 || len(s.Snapshot().VCenters) != 0 {
		t.Errorf("the next poll is in %s: %v", wait, c.counts)
	}
	if !strings.Contains(s.log.String(), "the API server is away") {
		t.Error(s.log.String())
	}
	s.Want = good
	s.clock.pass(30 * time.Second)
	s.tick()
}

func TestThePollerRunsUntilItsContextEndsAndLogsOut(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	woken := make(chan struct{}, 10)
	s.Now, s.Wake = time.Now, func() { woken <- struct{}{} }
	if !s.NeedLeaderElection() {
		t.Error("every copy of the operator would ask")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	select {
	case <-woken:
	case <-time.After(2 * time.Minute):
		t.Fatal("it was not asked")
	}
	cancel()
	if err := <-ended; err != nil || s.only().Err != nil || c.requests("Logout") != 1 || c.requests("DELETE /session") != 1 {
		t.Errorf("%v, %v", err, c.counts)
	}
}
