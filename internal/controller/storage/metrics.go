package storage

import (
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"
)

// The names of the metrics.
const (
	// MetricDefaultClasses is the metric that OpenShift's alert MultipleDefaultStorageClasses reads.
	MetricDefaultClasses = "default_storage_class_count"
	// MetricMismatch is the metric that OpenShift's alert VolumeAttributesClassParameterMismatch reads.
	MetricMismatch  = "openshift_cluster_storage_vac_mismatch_parameters"
	MetricDriver    = "cluster_storage_operator_csi_driver_info"
	MetricCondition = "cluster_storage_operator_condition"
)

// metrics are this program's metrics. Only the leading pod sets values.
type metrics struct {
	classes                     prometheus.Gauge
	mismatch, driver, condition *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		classes: prometheus.NewGauge(prometheus.GaugeOpts{Name: MetricDefaultClasses, Help: "Number of StorageClasses that are the default."}),
		mismatch: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: MetricMismatch, Help: "1 for each driver whose VolumeAttributesClasses name different parameters, 0 if all name the same.",
		}, []string{"driver"}),
		driver: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: MetricDriver, Help: "1 for each CSI driver of the catalogue that is in the cluster, with its version and the operator's decision about it.",
		}, []string{"driver", "operator", "version", "state"}),
		condition: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: MetricCondition, Help: "1 if the condition that is reported in the Storage is True, 0 if not.",
		}, []string{"type"}),
	}
	for _, collector := range []prometheus.Collector{m.classes, m.mismatch, m.driver, m.condition} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observe(w *seen, results []result, conditions []operatorv1.OperatorCondition) {
	m.classes.Set(float64(len(w.defaults())))
	m.mismatch.Reset()
	for driver, differ := range w.mismatched() {
		m.mismatch.WithLabelValues(driver).Set(valueOf(differ))
	}
	m.driver.Reset()
	for i := range results {
		done := &results[i]
		if done.removal.done {
			continue
		}
		version := ""
		if done.driver != nil {
			version = done.driver.Status.Version
		}
		m.driver.WithLabelValues(done.entry.Name, done.entry.Operator, version, done.state()).Set(1)
	}
	m.condition.Reset()
	for _, condition := range conditions {
		m.condition.WithLabelValues(condition.Type).Set(valueOf(condition.Status == operatorv1.ConditionTrue))
	}
}

func valueOf(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// state returns, in one word, the decision about a driver, or what blocks the driver.
func (r *result) state() string {
	switch {
	case r.held():
		return "Held"
	case r.removal.message != "" && !r.removal.waits:
		return removingReason
	case r.removal.waits:
		return r.removal.reason
	default:
		return string(r.decision)
	}
}
