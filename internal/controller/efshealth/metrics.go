package efshealth

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// The names of the metrics. Alerts use the metrics: see docs/guide/alerts.md.
const (
	MetricProblem        = "csi_operator_cloud_problem"
	MetricOneZone        = "csi_operator_one_zone_volumes"
	MetricPoints         = "csi_operator_access_points"
	MetricPointsLimit    = "csi_operator_access_points_limit"
	MetricPointsUnused   = "csi_operator_access_points_unused"
	MetricPointsOutdated = "csi_operator_access_points_outdated_tags"
	MetricBytes          = "csi_operator_file_system_bytes"
	MetricRequests       = "csi_operator_cloud_requests_total"
	MetricSweeps         = "csi_operator_cloud_sweeps_total"
)

// mostSeries is the maximum number of series for each problem. The condition counts all findings, even findings without a series.
const mostSeries = 100

// metrics are the controller's metrics. They have no series while the controller does not check AWS.
type metrics struct {
	// mutex prevents a scrape in the middle of an update.
	mutex                                             sync.RWMutex
	driver                                            string
	problem, oneZone, points, limit, unused, outdated *prometheus.GaugeVec
	bytes                                             *prometheus.GaugeVec
	polls                                             prometheus.Counter
	// previous counts the requests of earlier clients. cloud is the present client.
	previous atomic.Int64
	cloud    atomic.Pointer[Cloud]
}

func newMetrics(registry prometheus.Registerer, driverName string) (*metrics, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"driver"}, labels...))
	}
	own := prometheus.Labels{"driver": driverName}
	m := &metrics{
		driver:   driverName,
		problem:  gauge(MetricProblem, "1 for each problem with an AWS resource that the cluster uses.", "problem", "file_system", "object", "shared"),
		oneZone:  gauge(MetricOneZone, "Volumes of One Zone file systems.", "file_system", "zone"),
		points:   gauge(MetricPoints, "Number of access points of each file system that the cluster uses.", "file_system"),
		limit:    gauge(MetricPointsLimit, "Maximum number of access points of a file system.", "file_system"),
		unused:   gauge(MetricPointsUnused, "Access points that this cluster created and no volume uses.", "file_system"),
		outdated: gauge(MetricPointsOutdated, "Access points of this cluster without the resource tags of the Infrastructure."),
		bytes:    gauge(MetricBytes, "Size of a file system that the cluster uses, as AWS measured it last.", "file_system"),
		polls:    prometheus.NewCounter(prometheus.CounterOpts{Name: MetricSweeps, Help: "Polls that AWS answered.", ConstLabels: own}),
	}
	total := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: MetricRequests, Help: "Requests of the operator to AWS, including retries.", ConstLabels: own,
	}, func() float64 { return float64(m.requests()) })
	for _, collector := range []prometheus.Collector{gaugeCollector{m}, m.polls, total} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// setClient switches the request counter to another client. The client is nil if the controller has none.
func (m *metrics) setClient(cloud Cloud) {
	m.previous.Store(m.requests())
	if cloud == nil {
		m.cloud.Store(nil)
		return
	}
	m.cloud.Store(&cloud)
}

func (m *metrics) requests() int64 {
	sent := m.previous.Load()
	if cloud := m.cloud.Load(); cloud != nil {
		sent += int64((*cloud).Requests())
	}
	return sent
}

// gaugeCollector collects all gauges under the mutex, because each update replaces all series.
type gaugeCollector struct{ *metrics }

// Describe implements prometheus.Collector.
func (t gaugeCollector) Describe(to chan<- *prometheus.Desc) {
	for _, vector := range t.gauges() {
		vector.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (t gaugeCollector) Collect(to chan<- prometheus.Metric) {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	for _, vector := range t.gauges() {
		vector.Collect(to)
	}
}

func (m *metrics) gauges() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{m.problem, m.oneZone, m.points, m.limit, m.unused, m.outdated, m.bytes}
}

func (m *metrics) reset() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.clear()
}

func (m *metrics) clear() {
	for _, vector := range m.gauges() {
		vector.Reset()
	}
}

func (m *metrics) observe(used uses, seen *snapshot, found []finding, tags tagging, limit int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.clear()
	series := map[problem]int{}
	for _, one := range found {
		if series[one.problem]++; series[one.problem] <= mostSeries {
			m.problem.WithLabelValues(m.driver, string(one.problem), one.fileSystem, one.object, strconv.FormatBool(one.minor)).Set(1)
		}
	}
	if seen == nil {
		return
	}
	m.outdated.WithLabelValues(m.driver).Set(float64(tags.outdated))
	for id, count := range oneZoneVolumes(used, seen) {
		m.oneZone.WithLabelValues(m.driver, id, seen.systems[id]).Set(float64(count))
	}
	for _, id := range used.fileSystems() {
		if size, known := seen.bytes[id]; known {
			m.bytes.WithLabelValues(m.driver, id).Set(float64(size))
		}
	}
	for id, points := range seen.points {
		m.points.WithLabelValues(m.driver, id).Set(float64(len(points.ids)))
		m.limit.WithLabelValues(m.driver, id).Set(float64(limit))
		m.unused.WithLabelValues(m.driver, id).Set(float64(len(unused(used, points, id))))
	}
}
