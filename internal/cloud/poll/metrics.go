package poll

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric names, the same for all clouds. Alerts and dashboards use them.
const (
	MetricAnswered = "csi_operator_cloud_answer_timestamp_seconds"
	MetricCalls    = "csi_operator_cloud_calls_total"
)

// Kind has the help texts and the labels of the metrics about one kind of cloud.
type Kind struct {
	// AnsweredHelp and CallsHelp are the help texts of the two metrics.
	AnsweredHelp, CallsHelp string
	// AnsweredBy are the labels of MetricAnswered, in addition to label "driver". CallsBy is a label of MetricCalls, in addition to labels "driver" and
	// "outcome".
	AnsweredBy []string
	CallsBy    string
	// Limited is the HTTP status, in addition to 429, with which the cloud reports that a client sends too many requests.
	Limited int
}

// Metrics count a cloud's answers. Methods of a nil Metrics do nothing.
type Metrics struct {
	kind   Kind
	answer *prometheus.GaugeVec
	calls  *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer, driver string, kind Kind) (*Metrics, error) {
	labels := prometheus.Labels{"driver": driver}
	m := &Metrics{
		kind:   kind,
		answer: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: MetricAnswered, Help: kind.AnsweredHelp, ConstLabels: labels}, kind.AnsweredBy),
		calls: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: MetricCalls, Help: kind.CallsHelp, ConstLabels: labels}, []string{kind.CallsBy, "outcome"},
		),
	}
	for _, collector := range []prometheus.Collector{m.answer, m.calls} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics of the cloud: %w", err)
		}
	}
	return m, nil
}

// Answered records the time of the last answer. A zero time means that there was no answer. Argument "by" has the values of the labels AnsweredBy.
func (m *Metrics) Answered(at time.Time, by ...string) {
	if m != nil && !at.IsZero() {
		m.answer.WithLabelValues(by...).Set(float64(at.Unix()))
	}
}

// Count counts a request by the HTTP status of its response. Status 0 means that there was no response. Argument "by" is the value of the label
// CallsBy.
func (m *Metrics) Count(by string, status int) {
	if m != nil {
		m.calls.WithLabelValues(by, m.kind.outcome(status)).Inc()
	}
}

// Delete deletes the series with this label value.
func (m *Metrics) Delete(by string) {
	if m != nil {
		m.answer.DeletePartialMatch(prometheus.Labels{m.kind.CallsBy: by})
		m.calls.DeletePartialMatch(prometheus.Labels{m.kind.CallsBy: by})
	}
}

// outcome returns one of a few words for an HTTP status. With few words, the metric has few series.
func (k Kind) outcome(status int) string {
	switch {
	case status == 0:
		return "unreachable"
	case status == http.StatusUnauthorized:
		return "unauthorized"
	case status == http.StatusForbidden:
		return "forbidden"
	case status == http.StatusTooManyRequests || status == k.Limited:
		return "limited"
	case status >= http.StatusInternalServerError:
		return "failed"
	case status >= http.StatusMultipleChoices:
		return "refused"
	default:
		return "answered"
	}
}
