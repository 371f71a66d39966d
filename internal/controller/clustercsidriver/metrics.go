package clustercsidriver

import (
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The names of the metrics. Alerts and dashboards read the metrics, and docs/guide/alerts.md explains them.
const (
	MetricExists             = "csi_operator_clustercsidriver_exists"
	MetricCondition          = "csi_operator_condition"
	MetricNodePods           = "csi_operator_node_pods"
	MetricControllerPods     = "csi_operator_controller_pods"
	MetricCredentialsMissing = "csi_operator_credentials_missing"
	MetricRemovalBlocking    = "csi_operator_removal_blocking_pods"
	MetricRolloutNodes       = "csi_operator_node_rollout_waiting_nodes"
	MetricRolloutSince       = "csi_operator_node_rollout_since_timestamp_seconds"
	MetricRolloutLimit       = "csi_operator_node_rollout_limit_seconds"
	MetricMigrationStalled   = "csi_operator_migration_stalled"
)

// metrics are the operator's metrics. Only the leading operator pod sets values.
type metrics struct {
	driver                                                             string
	exists, condition, nodePods, controllerPods, credentials, blocking *prometheus.GaugeVec
	rolloutNodes, rolloutSince, rolloutLimit, stalled                  *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer, driverName string) (*metrics, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"driver"}, labels...))
	}
	m := &metrics{
		driver:         driverName,
		exists:         gauge(MetricExists, "1 if the ClusterCSIDriver exists, 0 if not."),
		condition:      gauge(MetricCondition, "1 if the condition of the ClusterCSIDriver is True, 0 if not.", "type"),
		nodePods:       gauge(MetricNodePods, "Node pods of the driver that are desired, updated and available.", "state"),
		controllerPods: gauge(MetricControllerPods, "Controller pods of the driver that are desired, updated and available.", "state"),
		credentials:    gauge(MetricCredentialsMissing, "1 if a Secret of the controller is absent, unusable or not provisioned, 0 if not.", "secret"),
		blocking: gauge(MetricRemovalBlocking,
			"Number of objects that block the driver's removal: pods that use its volumes, objects that only the driver can delete, or nodes with mounts."),
		rolloutNodes: gauge(MetricRolloutNodes, "Nodes that wait for the new node pod, by whether pods use volumes there.", "state"),
		rolloutSince: gauge(MetricRolloutSince, "When the current roll-out of node pods began, as a Unix time."),
		rolloutLimit: gauge(MetricRolloutLimit, "How long nodes may wait for the new node pod before an alert fires, in seconds."),
		stalled:      gauge(MetricMigrationStalled, "1 if a migration waits because too many nodes are without a node pod, 0 if it makes progress."),
	}
	for _, vector := range m.gauges() {
		if err := registry.Register(vector); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// absent reports in the metrics that the ClusterCSIDriver does not exist.
func (m *metrics) absent() {
	m.reset()
	m.exists.WithLabelValues(m.driver).Set(0)
}

func (m *metrics) reset() {
	for _, vector := range m.gauges() {
		vector.Reset()
	}
}

func (m *metrics) gauges() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{
		m.exists, m.condition, m.nodePods, m.controllerPods, m.credentials, m.blocking, m.rolloutNodes, m.rolloutSince, m.rolloutLimit,
		m.stalled,
	}
}

func (m *metrics) observe(d driver.Driver, conditions []operatorv1.OperatorCondition, result outcome) {
	live := result.live()
	m.reset()
	m.exists.WithLabelValues(m.driver).Set(1)
	for _, condition := range conditions {
		m.condition.WithLabelValues(m.driver, condition.Type).Set(number(condition.Status == operatorv1.ConditionTrue))
	}
	if daemonSet := live.daemonSet; daemonSet != nil {
		m.nodePods.WithLabelValues(m.driver, "desired").Set(float64(daemonSet.Status.DesiredNumberScheduled))
		m.nodePods.WithLabelValues(m.driver, "updated").Set(float64(daemonSet.Status.UpdatedNumberScheduled))
		m.nodePods.WithLabelValues(m.driver, "available").Set(float64(daemonSet.Status.NumberAvailable))
	}
	if deployment := live.deployment; deployment != nil && deployment.Spec.Replicas != nil {
		m.controllerPods.WithLabelValues(m.driver, "desired").Set(float64(*deployment.Spec.Replicas))
		m.controllerPods.WithLabelValues(m.driver, "updated").Set(float64(deployment.Status.UpdatedReplicas))
		m.controllerPods.WithLabelValues(m.driver, "available").Set(float64(deployment.Status.AvailableReplicas))
	}
	for _, credentials := range d.Credentials {
		if available := status.Find(conditions, credentials.Condition+status.Available); available != nil && !credentials.Optional {
			missing := available.Status != operatorv1.ConditionTrue || available.Reason == status.ActionRequired
			m.credentials.WithLabelValues(m.driver, credentials.Secret).Set(number(missing))
		}
	}
	m.blocking.WithLabelValues(m.driver).Set(float64(result.removal.blocking))
	if result.moved.Message != "" {
		m.stalled.WithLabelValues(m.driver).Set(number(result.moved.Stalled))
	}
	m.rollout(d, conditions, result)
}

// rollout sets the number of nodes that wait for the new node pod, and the time at which the roll-out began.
func (m *metrics) rollout(d driver.Driver, conditions []operatorv1.OperatorCondition, result outcome) {
	if result.rolled.Message == "" {
		return
	}
	progressing := status.Find(conditions, d.ConditionPrefix+nodeService+status.Progressing)
	m.rolloutNodes.WithLabelValues(m.driver, "idle").Set(float64(result.rolled.Idle))
	m.rolloutNodes.WithLabelValues(m.driver, "in_use").Set(float64(result.rolled.InUse))
	since := progressing.LastTransitionTime.Time
	if result.rolled.Since.After(since) {
		// A new roll-out can start before the condition changes. In that case, the start of the roll-out counts.
		since = result.rolled.Since
	}
	m.rolloutSince.WithLabelValues(m.driver).Set(float64(since.Unix()))
	m.rolloutLimit.WithLabelValues(m.driver).Set(driver.RolloutLimit(result.seen.config.Settings).Seconds())
}

func number(value bool) float64 {
	if value {
		return 1
	}
	return 0
}
