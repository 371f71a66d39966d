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

// Events notes events as "Type Reason: note", those with a related object as "Type Reason (Kind name): note".
type Events struct{ Said []string }

// Eventf notes one.
func (e *Events) Eventf(_, related runtime.Object, kind, reason, _, note string, args ...any) {
	about := ""
	if object, ok := related.(client.Object); ok {
		about = fmt.Sprintf(" (%s %s)", object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
	}
	e.Said = append(e.Said, kind+" "+reason+about+": "+fmt.Sprintf(note, args...))
}

// Resources are those of a cloud: they note what is asked for, and Undo leaves what Left says.
type Resources struct {
	Asked []string
	Left  string
}

// Manage notes "keep" or "leave".
func (r *Resources) Manage(keep bool) {
	r.Asked = append(r.Asked, map[bool]string{true: "keep", false: "leave"}[keep])
}

// Undo notes "undo".
func (r *Resources) Undo() string {
	r.Asked = append(r.Asked, "undo")
	return r.Left
}

// Written is what was last sent with a request; nil if nothing was.
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

// Metrics are the values of all metrics, by their names and the values of their labels; of a histogram the number and the sum.
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
