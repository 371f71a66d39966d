package openstack

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// The names of the metrics. Alerts and dashboards read them.
const (
	MetricAnswered = "csi_operator_cloud_answer_timestamp_seconds"
	MetricCalls    = "csi_operator_cloud_calls_total"
)

// Metrics say how the cloud answers. They have no more series than services times outcomes. A nil one counts nothing.
type Metrics struct {
	driver string
	answer *prometheus.GaugeVec
	calls  *prometheus.CounterVec
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer, driver string) (*Metrics, error) {
	m := &Metrics{
		driver: driver,
		answer: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: MetricAnswered, Help: "When the cloud last answered everything that the driver needs to know.",
		}, []string{"driver"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricCalls, Help: "Requests to the cloud, by service and outcome.",
		}, []string{"driver", "service", "outcome"}),
	}
	for _, collector := range []prometheus.Collector{m.answer, m.calls} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics of the cloud: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) answered(facts Facts) {
	if m != nil && facts.Known() {
		m.answer.WithLabelValues(m.driver).Set(float64(facts.Answered.Unix()))
	}
}

func (m *Metrics) request(service string, status int) {
	if m != nil {
		m.calls.WithLabelValues(m.driver, service, outcome(status)).Inc()
	}
}

// outcome is one of a few words.
func outcome(status int) string {
	switch {
	case status == 0:
		return "unreachable"
	case status == http.StatusUnauthorized:
		return "unauthorized"
	case status == http.StatusForbidden:
		return "forbidden"
	case status == http.StatusTooManyRequests || status == http.StatusRequestEntityTooLarge:
		return "limited"
	case status >= http.StatusInternalServerError:
		return "failed"
	case status >= http.StatusMultipleChoices:
		return "refused"
	default:
		return "answered"
	}
}
