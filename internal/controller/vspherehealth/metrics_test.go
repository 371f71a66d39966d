package vspherehealth

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func TestMetricsTellWhatTelemetryAndAlertsRead(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry, "csi.vsphere.vmware.com")
	if err != nil {
		t.Fatal(err)
	}
	in := healthy()
	in.cluster.categories = []string{"a", "b", "c"}
	vc := &in.snapshot.VCenters[0]
	vc.VMs[0].Hardware, vc.VMs[0].CBT, vc.Hosts[1].Version, vc.Hosts[1].APIVersion = 13, true, "7.0.3", "7.0.3.0"
	vc.VMs = append(vc.VMs, vsphere.VM{UUID: "no node", Hardware: 10, Host: ref("HostSystem", "dc1-host-3")})
	vc.Hosts = append(vc.Hosts, vsphere.Host{Ref: ref("HostSystem", "dc1-host-3"), Version: "6.0"})
	in.cluster.volumes = append(in.cluster.volumes, volume{name: "old", inTree: true, zonal: true})
	in.snapshot.VCenters[1].Datastores[0].Type = "vsan"
	in.want.FailureDomains = append(in.want.FailureDomains, domainOf("vc1", "dc1"))
	in.want.FailureDomains[2].Zone, in.want.FailureDomains[2].Topology.Datastore = "zone-9", ""
	found := []finding{
		{check: hostVersion, severity: degrade, objects: 2}, {check: hostVersion, severity: blockUpgrade, objects: 3},
		{check: hostVersion, severity: degrade, server: "vc2", objects: 1}, {check: existingDriver, severity: blockInstall, objects: 1},
	}
	m.observe(in, found)
	const findings = MetricFindings + " "
	const driver = " csi.vsphere.vmware.com "
	want := map[string]float64{
		findings + "HostVersion" + driver + "degrade": 3, findings + "HostVersion" + driver + "block-upgrade": 3,
		findings + "ExistingDriver" + driver + "block-install":       1,
		MetricDriverError + " install_blocked existing_driver_found": 1, MetricDriverError + " upgrade_blocked existing_driver_found": 1,
		MetricVCenters + " 8.0.2.0  vc1 8.0.2": 1, MetricVCenters + " 8.0.2.0  vc2 8.0.2": 1,
		MetricHosts + " 8.0.2.0 8.0.2": 3, MetricHosts + " 7.0.3.0 7.0.3": 1,
		MetricHardware + " vmx-13": 1, MetricHardware + " vmx-19": 3,
		MetricChangeTracking + " enabled": 1, MetricChangeTracking + " disabled": 3,
		MetricDatastores + " vmfs": 1, MetricDatastores + " vsan": 1, MetricShared: 1, MetricZonal: 1,
		MetricTopologyTags + " infrastructure": 2, MetricTopologyTags + " clustercsidriver": 3,
		MetricDomains + " failure_domains": 3, MetricDomains + " regions": 2, MetricDomains + " zones": 3, MetricDomains + " vcenters": 2,
		MetricDomains + " datacenters": 2, MetricDomains + " datastores": 2,
	}
	if diff := cmp.Diff(want, canned.Metrics(t, registry)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Only what is known of the cluster, where no vCenter has ever answered.
	in = healthy()
	in.snapshot.VCenters = []vsphere.VCenter{{Server: "vc1", Err: failing("vc1", vsphere.Timeout)}}
	in.want.FailureDomains = nil
	m.observe(in, nil)
	want = map[string]float64{
		MetricShared: 1, MetricZonal: 1, MetricTopologyTags + " infrastructure": 0, MetricTopologyTags + " clustercsidriver": 0,
		MetricDomains + " failure_domains": 0, MetricDomains + " regions": 0, MetricDomains + " zones": 0, MetricDomains + " vcenters": 0,
		MetricDomains + " datacenters": 0, MetricDomains + " datastores": 0,
	}
	if diff := cmp.Diff(want, canned.Metrics(t, registry)); diff != "" {
		t.Errorf("without an answer (-want +got):\n%s", diff)
	}
	m.reset()
	if left := canned.Metrics(t, registry); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if _, err := newMetrics(registry, "x"); err == nil {
		t.Error("registered twice")
	}
}

func TestAZoneCountsOnceInEachRegion(t *testing.T) {
	one := func(region, zone, dc, ds string) configv1.VSpherePlatformFailureDomainSpec {
		return configv1.VSpherePlatformFailureDomainSpec{
			Region: region, Zone: zone, Server: "vc", Topology: configv1.VSpherePlatformTopology{Datacenter: dc, Datastore: ds},
		}
	}
	got := scopes([]configv1.VSpherePlatformFailureDomainSpec{one("a", "1", "d", "s"), one("b", "1", "d", "s"), one("a", "1", "e", "s")})
	want := map[string]int{"failure_domains": 3, "regions": 2, "zones": 2, "vcenters": 1, "datacenters": 2, "datastores": 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
