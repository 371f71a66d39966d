package efshealth

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
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
