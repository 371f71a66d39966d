package sharedvolume

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// The names of the metrics. Alerts use the metrics: see docs/guide/alerts.md.
const (
	MetricCount      = "csi_operator_shared_volumes"
	MetricNotAllowed = "csi_operator_shared_volumes_not_allowed"
	MetricReady      = "csi_operator_shared_volume_ready_seconds"
	MetricOpen       = "csi_operator_shared_volumes_lists_avoidable"
)

type metrics struct {
	count      *prometheus.GaugeVec
	notAllowed prometheus.Gauge
	ready      prometheus.Histogram

	mutex   sync.Mutex
	tallies map[types.NamespacedName]tally
}

// tally is what one SharedVolume contributes to the metrics.
type tally struct {
	phase      v1alpha1.Phase
	notAllowed bool
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		count: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: MetricCount, Help: "SharedVolumes by phase."}, []string{"phase"}),
		notAllowed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: MetricNotAllowed, Help: "SharedVolumes whose namespace may not use their share.",
		}),
		ready: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: MetricReady, Help: "Seconds from the creation of a SharedVolume until it was first Ready.",
			Buckets: []float64{1, 2, 5, 10, 30, 60, 300, 1800},
		}),
		tallies: map[types.NamespacedName]tally{},
	}
	for _, phase := range []v1alpha1.Phase{v1alpha1.Pending, v1alpha1.Ready, v1alpha1.Deleting, v1alpha1.Failed} {
		m.count.WithLabelValues(string(phase))
	}
	for _, collector := range []prometheus.Collector{m.count, m.notAllowed, m.ready} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// observe updates the metrics for the current state of a SharedVolume.
func (m *metrics) observe(owner *v1alpha1.SharedVolume) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	key := client.ObjectKeyFromObject(owner)
	before, found := m.tallies[key]
	now := tally{owner.Status.Phase, meta.IsStatusConditionFalse(owner.Status.Conditions, v1alpha1.ConditionAllowed)}
	if found {
		m.add(before, -1)
	}
	m.add(now, 1)
	m.tallies[key] = now
}

func (m *metrics) remove(key types.NamespacedName) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if before, found := m.tallies[key]; found {
		m.add(before, -1)
		delete(m.tallies, key)
	}
}

func (m *metrics) add(one tally, sign float64) {
	m.count.WithLabelValues(string(one.phase)).Add(sign)
	if one.notAllowed {
		m.notAllowed.Add(sign)
	}
}

// observeReady measures how long a SharedVolume took until it was Ready for the first time.
func (m *metrics) observeReady(before, after *v1alpha1.SharedVolume, now time.Time) {
	if before.Status.ClaimRef.Name == "" && after.Status.Phase == v1alpha1.Ready {
		// The API server's clock may be ahead of ours, so the difference can be negative. A sum that shrinks would look like a restart.
		m.ready.Observe(max(0, now.Sub(after.CreationTimestamp.Time).Seconds()))
	}
}
