package poll

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func TestRequestsAreCountedByAFewWords(t *testing.T) {
	for status, want := range map[int]string{
		0: "unreachable", 200: "answered", 204: "answered", 302: "refused", 401: "unauthorized", 403: "forbidden", 404: "refused", 413: "refused",
		429: "limited", 500: "failed", 503: "failed", 504: "failed", 507: "limited",
	} {
		if got := (Kind{Limited: 507}).outcome(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

func TestMetricsAreOfADriverAndOfWhatIsStillThere(t *testing.T) {
	registry := prometheus.NewRegistry()
	kind := Kind{AnsweredHelp: "When.", AnsweredBy: []string{"place"}, CallsHelp: "How many.", CallsBy: "place"}
	metrics, err := NewMetrics(registry, "driver", kind)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewMetrics(registry, "driver", kind); err == nil {
		t.Error("they are registered twice")
	}
	metrics.Answered(time.Unix(1000, 0), "a")
	metrics.Answered(time.Time{}, "b")
	metrics.Count("a", 200)
	metrics.Count("b", 0)
	metrics.Count("b", 0)
	want := map[string]float64{MetricAnswered + " driver a": 1000, MetricCalls + " driver answered a": 1, MetricCalls + " driver unreachable b": 2}
	if diff := cmp.Diff(want, canned.Metrics(t, registry)); diff != "" {
		t.Error(diff)
	}
	metrics.Delete("a")
	if diff := cmp.Diff(map[string]float64{MetricCalls + " driver unreachable b": 2}, canned.Metrics(t, registry)); diff != "" {
		t.Error(diff)
	}
}

func TestNobodyHasToCount(*testing.T) {
	var none *Metrics
	none.Answered(time.Unix(1000, 0), "a")
	none.Count("a", 200)
	none.Delete("a")
}
