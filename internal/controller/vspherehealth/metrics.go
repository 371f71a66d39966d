package vspherehealth

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/prometheus/client_golang/prometheus"
)

// MetricFindings is the number of objects with findings. Alerts use this metric.
const MetricFindings = "csi_operator_vsphere_findings"

// Metrics of OpenShift's operator and of the detector, which OpenShift's telemetry, alerts and dashboards use (openshift/cluster-storage-operator
// 03984881, assets/vsphere_problem_detector/12_prometheusrules.yaml; vmware-vsphere-csi-driver-operator 030ff0e3, pkg/operator/utils/metric.go).
const (
	MetricVCenters       = "vsphere_vcenter_info"
	MetricHosts          = "vsphere_esxi_version_total"
	MetricHardware       = "vsphere_node_hw_version_total"
	MetricChangeTracking = "vsphere_vm_cbt_checks"
	MetricDatastores     = "vsphere_datastore_total"
	MetricShared         = "vsphere_rwx_volumes_total"
	MetricZonal          = "vsphere_zonal_volumes_total"
	MetricTopologyTags   = "vsphere_topology_tags"
	MetricDomains        = "vsphere_infrastructure_failure_domains"
	MetricDriverError    = "vsphere_csi_driver_error"
)

// metrics are the controller's metrics. The numbers of checks, vCenters and versions limit the number of series.
type metrics struct {
	// mutex prevents a scrape in the middle of an update.
	mutex  sync.RWMutex
	driver string

	findings, vCenters, hosts, hardware, tracking, datastores, shared, zonal, tags, domains, failed *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer, driverName string) (*metrics, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		driver:     driverName,
		findings:   gauge(MetricFindings, "Objects for which a vSphere check found a problem.", "driver", "check", "severity"),
		vCenters:   gauge(MetricVCenters, "1 for each vCenter.", "server", "version", "api_version", "build"),
		hosts:      gauge(MetricHosts, "ESXi hosts of nodes.", "version", "api_version"),
		hardware:   gauge(MetricHardware, "Nodes by the version of their virtual hardware.", "hw_version"),
		tracking:   gauge(MetricChangeTracking, "Nodes by changed block tracking.", "cbt"),
		datastores: gauge(MetricDatastores, "Datastores that the cluster uses.", "type"),
		shared:     gauge(MetricShared, "PersistentVolumes that several nodes can mount."),
		zonal:      gauge(MetricZonal, "PersistentVolumes that can be mounted in some zones only."),
		tags:       gauge(MetricTopologyTags, "Topology categories, by where they are configured.", "source"),
		domains:    gauge(MetricDomains, "Distinct objects that the failure domains of the Infrastructure name.", "scope"),
		failed:     gauge(MetricDriverError, "1 if another vendor's vSphere driver is installed.", "failure_reason", "condition"),
	}
	if err := registry.Register(m); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) gauges() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{
		m.findings, m.vCenters, m.hosts, m.hardware, m.tracking, m.datastores, m.shared, m.zonal, m.tags, m.domains, m.failed,
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, vector := range m.gauges() {
		vector.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	for _, vector := range m.gauges() {
		vector.Collect(to)
	}
}

// reset drops all series. The controller calls reset when it ends the checks.
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

// observe replaces all series. The series of a vCenter that does not answer keep the values of its last answer.
func (m *metrics) observe(in input, found []finding) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.clear()
	for _, one := range found {
		m.findings.WithLabelValues(m.driver, string(one.check), one.severity.String()).Add(float64(one.objects))
		if one.check == existingDriver {
			for _, condition := range []string{"install_blocked", "upgrade_blocked"} {
				m.failed.WithLabelValues(existingReason, condition).Set(1)
			}
		}
	}
	m.observeVCenters(in)
	m.shared.WithLabelValues().Set(0)
	m.zonal.WithLabelValues().Set(0)
	for _, one := range in.cluster.volumes {
		if one.shared {
			m.shared.WithLabelValues().Inc()
		}
		if one.zonal && !one.inTree {
			m.zonal.WithLabelValues().Inc()
		}
	}
	for scope, count := range scopes(in.want.FailureDomains) {
		m.domains.WithLabelValues(scope).Set(float64(count))
	}
	infrastructure := 0
	if len(in.want.FailureDomains) > 1 {
		infrastructure = len([]string{regionCategory, zoneCategory})
	}
	m.tags.WithLabelValues("infrastructure").Set(float64(infrastructure))
	m.tags.WithLabelValues("clustercsidriver").Set(float64(len(in.cluster.categories)))
}

func (m *metrics) observeVCenters(in input) {
	uuids := map[string]bool{}
	for _, one := range in.cluster.nodes {
		uuids[one.uuid] = true
	}
	for _, vc := range in.snapshot.VCenters {
		if vc.Answered.IsZero() {
			continue
		}
		m.vCenters.WithLabelValues(vc.Server, vc.Version, vc.APIVersion, vc.Build).Set(1)
		for _, one := range vc.Datastores {
			m.datastores.WithLabelValues(strings.ToLower(one.Type)).Inc()
		}
		used := map[string]bool{}
		for _, vm := range vc.VMs {
			if !uuids[vm.UUID] {
				continue
			}
			used[vm.Host.Value] = true
			m.hardware.WithLabelValues("vmx-" + strconv.Itoa(vm.Hardware)).Inc()
			m.tracking.WithLabelValues(map[bool]string{true: "enabled", false: "disabled"}[vm.CBT]).Inc()
		}
		for _, host := range vc.Hosts {
			if used[host.Ref.Value] {
				m.hosts.WithLabelValues(host.Version, host.APIVersion).Inc()
			}
		}
	}
}

// scopes counts the distinct objects that failure domains name (vmware-vsphere-csi-driver-operator 030ff0e3, pkg/operator/utils/topology.go,
// UpdateMetrics).
func scopes(domains []configv1.VSpherePlatformFailureDomainSpec) map[string]int {
	seen := map[string]bool{}
	counts := map[string]int{"failure_domains": len(domains), "regions": 0, "zones": 0, "vcenters": 0, "datacenters": 0, "datastores": 0}
	count := func(scope string, names ...string) {
		key := scope + "\n" + strings.Join(names, "\n")
		if last := names[len(names)-1]; last != "" && !seen[key] {
			seen[key] = true
			counts[scope]++
		}
	}
	for _, one := range domains {
		count("regions", one.Region)
		count("zones", one.Region, one.Zone)
		count("vcenters", one.Server)
		count("datacenters", one.Topology.Datacenter)
		count("datastores", one.Topology.Datacenter, one.Topology.Datastore)
	}
	return counts
}
