package vsphere

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// The names of the metrics, which are those of other clouds. Alerts and dashboards read them.
const (
	MetricAnswered = "csi_operator_cloud_answer_timestamp_seconds"
	MetricCalls    = "csi_operator_cloud_calls_total"
)

// Metrics say how the vCenters answer. They have no more series than vCenters times outcomes. A nil one counts nothing.
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
			Name: MetricAnswered, Help: "When the vCenter last answered everything that the driver needs to know.",
		}, []string{"driver", "vcenter"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: MetricCalls, Help: "Requests to the vCenter, by outcome.",
		}, []string{"driver", "vcenter", "outcome"}),
	}
	for _, collector := range []prometheus.Collector{m.answer, m.calls} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics of the vCenters: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) answered(seen Snapshot) {
	if m == nil {
		return
	}
	for _, one := range seen.VCenters {
		if !one.Answered.IsZero() {
			m.answer.WithLabelValues(m.driver, one.Server).Set(float64(one.Answered.Unix()))
		}
	}
}

// forget drops the series of a vCenter that the configuration has no more.
func (m *Metrics) forget(server string) {
	if m != nil {
		m.answer.DeletePartialMatch(prometheus.Labels{"vcenter": server})
		m.calls.DeletePartialMatch(prometheus.Labels{"vcenter": server})
	}
}

func (m *Metrics) request(server string, status int) {
	if m != nil {
		m.calls.WithLabelValues(m.driver, server, outcome(status)).Inc()
	}
}

// outcome is one of a few words. A fault of SOAP has status 500.
func outcome(status int) string {
	switch {
	case status == 0:
		return "unreachable"
	case status == http.StatusUnauthorized:
		return "unauthorized"
	case status == http.StatusForbidden:
		return "forbidden"
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return "limited"
	case status >= http.StatusInternalServerError:
		return "failed"
	case status >= http.StatusMultipleChoices:
		return "refused"
	default:
		return "answered"
	}
}
