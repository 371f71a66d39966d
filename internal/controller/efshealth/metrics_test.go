package efshealth

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// An alert that waits for some time would begin to wait anew whenever a series is missing.
func TestNoSeriesIsMissingWhileALookReplacesThem(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry, "driver")
	if err != nil {
		t.Fatal(err)
	}
	used, seen := healthy()
	look := func() {
		m.observe(used, seen, []finding{{problem: fileSystemMissing, fileSystem: absent}}, tagging{}, 1000)
	}
	look()
	var all sync.WaitGroup
	all.Go(func() {
		for range 500 {
			look()
		}
	})
	want := len(families(t, registry))
	for range 500 {
		if got := families(t, registry); len(got) != want {
			t.Errorf("%d metrics, want %d: %v", len(got), want, got)
			break
		}
	}
	all.Wait()
	m.reset()
	// The two counters stay.
	if got := families(t, registry); len(got) != 2 {
		t.Errorf("without AWS there are %v", got)
	}
}

func families(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	found, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range found {
		names = append(names, family.GetName())
	}
	return names
}

// What only SharedVolumes need, any developer can invent: alerts tell it apart, whoever names it first.
func TestTheMetricTellsWhatOnlySharedVolumesNeed(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry, "driver")
	if err != nil {
		t.Fatal(err)
	}
	used, seen := healthy()
	const invented, both = "fs-44444444", "fs-55555555"
	seen.asked[invented], seen.asked[both] = true, true
	used.volumes = append(used.volumes,
		volume{name: "pv-a", fileSystem: invented, accessPoint: point, shared: true},
		volume{name: "pv-b", fileSystem: both, shared: true}, volume{name: "pv-c", fileSystem: both},
		volume{name: "pv-d", fileSystem: regional, accessPoint: other, shared: true}, volume{name: "pv-e", fileSystem: regional, accessPoint: other},
	)
	m.observe(used, seen, missing(used, seen, circumstances{}), tagging{}, 1000)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if family.GetName() == MetricProblem {
				got = append(got, fmt.Sprintln(labels["problem"], labels["file_system"], labels["object"], "shared:", labels["shared"]))
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"AccessPointMissing fs-11111111 fsap-22222222 shared: false\n",
		"FileSystemMissing fs-44444444 PersistentVolume/pv-a shared: true\n",
		"FileSystemMissing fs-55555555 PersistentVolume/pv-c shared: false\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// measured is a reconciler with a registry of its own.
func measured(t *testing.T) (*Reconciler, *prometheus.Registry) {
	t.Helper()
	r, _ := newReconciler(t)
	registry := prometheus.NewRegistry()
	var err error
	if r.metrics, err = newMetrics(registry, efs.DriverName); err != nil {
		t.Fatal(err)
	}
	return r, registry
}

func TestTheMetricsSayWhatALookHasFound(t *testing.T) {
	r, registry := measured(t)
	used, seen := healthy()
	seen.bytes = map[string]int64{regional: 6144, "fs-99999999": 1}
	used.volumes = append(used.volumes, volume{name: "pv-3", fileSystem: oneZone})
	seen.points[regional].owned["fsap-9"] = aws.Tags{}
	seen.points[regional].ids["fsap-9"] = true
	found := []finding{{problem: mountTargetMissing, fileSystem: regional, object: "us-east-1c"}, {problem: permissionMissing, object: "a:b", minor: true}}
	r.metrics.observe(used, seen, found, tagging{outdated: 4}, 1000)
	none := map[string]float64{MetricSweeps: 0, MetricRequests: 0}
	want := map[string]float64{
		MetricProblem + " fs-11111111 us-east-1c MountTargetMissing false": 1, MetricProblem + "  a:b PermissionMissing true": 1,
		MetricOneZone + " fs-22222222 us-east-1a": 2, MetricPointsOutdated: 4, MetricBytes + " fs-11111111": 6144,
		MetricPoints + " fs-11111111": 2, MetricPointsLimit + " fs-11111111": 1000, MetricPointsUnused + " fs-11111111": 1,
		MetricPoints + " fs-22222222": 0, MetricPointsLimit + " fs-22222222": 1000, MetricPointsUnused + " fs-22222222": 0,
		MetricSweeps: 0, MetricRequests: 0,
	}
	values := func() map[string]float64 {
		short := map[string]float64{}
		for name, value := range canned.Metrics(t, registry) {
			short[strings.Replace(name, " "+efs.DriverName, "", 1)] = value
		}
		return short
	}
	if diff := cmp.Diff(want, values()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Without an answer only what is wrong with asking can be said.
	r.metrics.observe(used, nil, found[1:], tagging{outdated: 4}, 1000)
	want = map[string]float64{MetricProblem + "  a:b PermissionMissing true": 1, MetricSweeps: 0, MetricRequests: 0}
	if diff := cmp.Diff(want, values()); diff != "" {
		t.Errorf("without an answer (-want +got):\n%s", diff)
	}
	r.metrics.reset()
	if diff := cmp.Diff(none, values()); diff != "" {
		t.Errorf("without credentials (-want +got):\n%s", diff)
	}
	if _, err := newMetrics(registry, efs.DriverName); err == nil || err.Error() != "register metrics: duplicate metrics collector registration attempted" {
		t.Errorf("registered twice: %v", err)
	}
}

func TestTheRequestsOfAllClientsAreCounted(t *testing.T) {
	r, registry := measured(t)
	first, second := &scripted{}, &scripted{}
	const requests = MetricRequests + " " + efs.DriverName
	for _, step := range []struct {
		next Cloud
		asks *scripted
		want float64
	}{{first, first, 1}, {second, second, 2}, {nil, nil, 2}, {second, second, 4}} {
		r.setConnection(connection{madeOf: fmt.Sprint(step), cloud: step.next})
		if step.asks != nil {
			_ = step.asks.ask("list")
		}
		if got := canned.Metrics(t, registry)[requests]; got != step.want {
			t.Errorf("%v requests, want %v", got, step.want)
		}
	}
}

// The condition counts all of them.
func TestTheSeriesOfAProblemAreBounded(t *testing.T) {
	r, registry := measured(t)
	var found []finding
	for i := range mostSeries + 5 {
		found = append(found, finding{problem: fileSystemMissing, fileSystem: fmt.Sprint("fs-", i)})
	}
	r.metrics.observe(uses{}, nil, append(found, finding{problem: accessPointMissing}), tagging{}, 0)
	counts := map[string]int{}
	for name := range canned.Metrics(t, registry) {
		counts[name[:strings.IndexByte(name+" ", ' ')]]++
	}
	if counts[MetricProblem] != mostSeries+1 {
		t.Errorf("%d series", counts[MetricProblem])
	}
}
