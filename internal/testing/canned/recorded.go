package canned

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Events records events as "Type Reason: note", or with a related object as "Type Reason (Kind name): note".
type Events struct{ Said []string }

// Eventf records an event.
func (e *Events) Eventf(_, related runtime.Object, kind, reason, _, note string, args ...any) {
	about := ""
	if object, ok := related.(client.Object); ok {
		about = fmt.Sprintf(" (%s %s)", object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
	}
	e.Said = append(e.Said, kind+" "+reason+about+": "+fmt.Sprintf(note, args...))
}

// Resources stands in for resources in a cloud: it records calls, and Undo returns Left.
type Resources struct {
	Asked []string
	Left  string
}

// Manage records "keep" or "leave".
func (r *Resources) Manage(keep bool) {
	r.Asked = append(r.Asked, map[bool]string{true: "keep", false: "leave"}[keep])
}

// Undo records "undo".
func (r *Resources) Undo() string {
	r.Asked = append(r.Asked, "undo")
	return r.Left
}

// Written returns the last body of a request; nil if there was none.
func Written[T any](t *testing.T, c *Cluster, request string) *T {
	t.Helper()
	for i, what := range slices.Backward(c.Writes) {
		if what == request {
			into := new(T)
			if err := json.Unmarshal([]byte(c.Bodies[i]), into); err != nil {
				t.Fatal(err)
			}
			return into
		}
	}
	return nil
}

// Metrics returns the values of all metrics, by their names and label values; for a histogram, its count and sum.
func Metrics(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			if histogram := metric.GetHistogram(); histogram != nil {
				found[name+" count"], found[name+" sum"] = float64(histogram.GetSampleCount()), histogram.GetSampleSum()
				continue
			}
			found[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return found
}
