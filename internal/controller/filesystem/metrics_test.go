package filesystem

import (
	"sync"
	"testing"

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
