package vspherehealth

import (
	"fmt"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

func TestEachThingWrongWithNodesIsFound(t *testing.T) {
	const noID = "spec.providerID of nodes %s does not begin with vsphere://: the driver can't attach volumes there. Check that the cloud controller " +
		"manager works. If a node is not a vSphere VM, label it node.openshift.io/platform-type=<its platform>: the driver's pods then leave it, and " +
		"their roll-out can finish"
	const noVM = "no vCenter has VMs with the UUIDs of nodes %s: the driver can't attach volumes there. Check that the cloud configuration names " +
		"their vCenter and datacenter, and that the user may see the VMs"
	const unreadable = "vCenter vc1: the user can't read the host or the virtual hardware of nodes dc1-1. Grant it System.Read on the VMs and their " +
		"hosts"
	without := func(id string, age time.Duration) func(*input, *vsphere.VCenter) {
		return func(in *input, _ *vsphere.VCenter) {
			for i := range 2 {
				in.cluster.nodes[i].uuid, in.cluster.nodes[i].providerID, in.cluster.nodes[i].created = "", id, noon().Add(-age)
			}
		}
	}
	run(t, healthy, map[string]row{
		"NodeProviderID":                         {without("aws:///i-1", time.Hour), []string{fmt.Sprintf("degrade NodeProviderID 2: "+noID, `dc1-1 ("aws:///i-1"), dc1-2 ("aws:///i-1")`)}},
		"NodeProviderID: five minutes old":       {without("", 5*time.Minute), []string{fmt.Sprintf("degrade NodeProviderID 2: "+noID, `dc1-1 (""), dc1-2 ("")`)}},
		"NodeProviderID: nodes that have joined": {without("", 5*time.Minute-time.Second), nil},
		"NodePlatform": {func(in *input, _ *vsphere.VCenter) {
			in.cluster.nodes = append(in.cluster.nodes, node{name: "metal-1", platform: "baremetal", created: noon().Add(-time.Hour)})
		}, []string{
			`warn NodePlatform 1: label node.openshift.io/platform-type says that nodes metal-1 ("baremetal") are not vSphere VMs: the driver does not run ` +
				"there, and pods with its volumes never start there. Keep these pods off the nodes, or correct the label",
		}},
		"NodePlatform: of a VM": {func(in *input, _ *vsphere.VCenter) {
			in.cluster.nodes[0].platform, in.cluster.nodes[0].uuid = "baremetal", ""
		}, []string{
			`warn NodePlatform 1: label node.openshift.io/platform-type says that nodes dc1-1 ("baremetal") are not vSphere VMs, but their providerID says ` +
				"that they are: the driver does not run there, and pods with its volumes neither start nor terminate. Remove the label",
		}},
		"NodeVM": {func(_ *input, vc *vsphere.VCenter) { vc.VMs = nil }, []string{
			fmt.Sprintf("degrade NodeVM 2: "+noVM, "dc1-1 (dc1-1), dc1-2 (dc1-2)"),
		}},
		"NodeVM: before the installation": {func(in *input, vc *vsphere.VCenter) { vc.VMs, in.cluster.installed = vc.VMs[1:], false }, []string{
			fmt.Sprintf("block-install NodeVM 1: "+noVM, "dc1-1 (dc1-1)"),
		}},
		"NodeVM: another vCenter does not answer": {func(in *input, vc *vsphere.VCenter) {
			vc.VMs = nil
			in.snapshot.VCenters[1].Err, in.snapshot.VCenters[1].FailingSince = failing("vc2", vsphere.Timeout), noon()
		}, nil},
		"NodeVM: hardware unknown": {func(_ *input, vc *vsphere.VCenter) { vc.VMs[0].Hardware = 0 }, []string{"block-upgrade NodeVM 1: " + unreadable}},
		"NodeVM: host unknown":     {func(_ *input, vc *vsphere.VCenter) { vc.VMs[0].Host = vsphere.Ref{} }, []string{"block-upgrade NodeVM 1: " + unreadable}},
		"NodeHardwareVersion": {func(_ *input, vc *vsphere.VCenter) { vc.VMs[0].Hardware, vc.VMs[1].Hardware = 14, 13 }, []string{
			"degrade NodeHardwareVersion 2: vCenter vc1: the virtual hardware of nodes dc1-1 (vmx-14), dc1-2 (vmx-13) is older than vmx-15, which the " +
				"driver " +
				"needs. Drain each node, shut it down and upgrade its hardware",
		}},
		"NodeHardwareVersion: just new enough": {func(_ *input, vc *vsphere.VCenter) { vc.VMs[0].Hardware = 15 }, nil},
		"NodeDiskUUID": {func(_ *input, vc *vsphere.VCenter) { vc.VMs[1].DiskUUID = false }, []string{
			"warn NodeDiskUUID 1: vCenter vc1: disk.EnableUUID is off in the VMs of nodes dc1-2: pods there can't mount volumes. Drain each node, shut " +
				"its VM down and set disk.EnableUUID to TRUE",
		}},
		"NodeChangeTracking: one has it": {func(_ *input, vc *vsphere.VCenter) { vc.VMs[1].CBT = true }, []string{
			"warn NodeChangeTracking 1: changed block tracking (ctkEnabled) is on in the VMs of nodes dc1-2, and off in all others: backups of volumes " +
				"fail on some nodes. Use the same setting in all VMs",
		}},
		"NodeChangeTracking: one lacks it": {func(in *input, _ *vsphere.VCenter) {
			for i := range 2 {
				for j := range 2 {
					in.snapshot.VCenters[i].VMs[j].CBT = i+j > 0
				}
			}
		}, []string{
			"warn NodeChangeTracking 1: changed block tracking (ctkEnabled) is off in the VMs of nodes dc1-1, and on in all others: backups of volumes " +
				"fail on some nodes. Use the same setting in all VMs",
		}},
		"NodeChangeTracking: all have it": {func(in *input, _ *vsphere.VCenter) {
			for i := range 2 {
				in.snapshot.VCenters[i].VMs[0].CBT, in.snapshot.VCenters[i].VMs[1].CBT = true, true
			}
		}, nil},
		"a VM that is no node": {func(_ *input, vc *vsphere.VCenter) {
			vc.VMs = append(vc.VMs, vsphere.VM{UUID: "x", Hardware: 10, CBT: true})
		}, nil},
	})
}

func TestEachThingWrongWithHostsIsFound(t *testing.T) {
	run(t, healthy, map[string]row{
		"HostVersion: too old, and too old for upgrades": {func(in *input, vc *vsphere.VCenter) {
			in.cluster.maxVolumes, vc.Hosts[0].APIVersion, vc.Hosts[1].APIVersion = 0, "6.7.2", "7.0.1.0"
		}, []string{
			"degrade HostVersion 1: vCenter vc1: ESXi of hosts esx1.dc1 (6.7.2) is too old: the driver needs 6.7.3. Upgrade the hosts to 7.0.2 or newer",
			"block-upgrade HostVersion 1: vCenter vc1: ESXi of hosts esx2.dc1 (7.0.1.0) is older than 7.0.2. Upgrade the hosts before the cluster",
		}},
		"HostVersion: before the installation": {func(in *input, vc *vsphere.VCenter) {
			in.cluster.installed, in.cluster.maxVolumes, vc.Hosts[0].APIVersion = false, 59, "6.5.0"
		}, []string{
			"block-install HostVersion 1: vCenter vc1: ESXi of hosts esx1.dc1 (6.5.0) is too old: the driver needs 6.7.3. Upgrade the hosts to 7.0.2 or newer",
		}},
		"HostVersion: just new enough": {func(in *input, vc *vsphere.VCenter) { in.cluster.maxVolumes, vc.Hosts[0].APIVersion = 59, "7.0.2.0" }, nil},
		"HostVersion: no node is there": {func(_ *input, vc *vsphere.VCenter) {
			vc.Hosts = append(vc.Hosts, vsphere.Host{Ref: ref("HostSystem", "spare"), Name: "spare", APIVersion: "6.0.0"})
		}, nil},
		"HostConnection": {func(_ *input, vc *vsphere.VCenter) { vc.Hosts[0].Connected, vc.Hosts[1].APIVersion = false, "" }, []string{
			"warn HostConnection 2: vCenter vc1: hosts esx1.dc1, esx2.dc1, which run nodes, are disconnected or have no known version: the driver can't " +
				"attach volumes to these nodes. Reconnect the hosts",
		}},
		"VolumeLimit": {func(_ *input, vc *vsphere.VCenter) {
			vc.Hosts[0].APIVersion, vc.Hosts[1].APIVersion = "7.0.3.0", "7.0.2.0"
		}, []string{
			"degrade VolumeLimit 2: vCenter vc1: maxAllowedBlockVolumesPerNode is 100, but ESXi of hosts esx1.dc1 (7.0.3.0), esx2.dc1 (7.0.2.0) allows 59 " +
				"for each VM. Upgrade the hosts to 8.0.0 or newer, or lower the number in the ClusterCSIDriver",
		}},
		"VolumeLimit: just as many": {func(in *input, vc *vsphere.VCenter) { in.cluster.maxVolumes, vc.Hosts[0].APIVersion = 59, "7.0.3.0" }, nil},
	})
}

func TestAllBadNodesAreNamedUpToTen(t *testing.T) {
	in := healthy()
	for i := range 13 {
		uuid := fmt.Sprintf("old-%02d", i)
		in.cluster.nodes = append(in.cluster.nodes, node{name: uuid, uuid: uuid})
		in.snapshot.VCenters[0].VMs = append(in.snapshot.VCenters[0].VMs, vsphere.VM{UUID: uuid, Hardware: 13, DiskUUID: true, Host: ref("HostSystem", "dc1-host-1")})
	}
	diff(t, []string{
		"degrade NodeHardwareVersion 13: vCenter vc1: the virtual hardware of nodes old-00 (vmx-13), old-01 (vmx-13), old-02 (vmx-13), old-03 (vmx-13), " +
			"old-04 " +
			"(vmx-13), old-05 (vmx-13), old-06 (vmx-13), old-07 (vmx-13), old-08 (vmx-13), old-09 (vmx-13) and 3 more is older than vmx-15, which the " +
			"driver " +
			"needs. Drain each node, shut it down and upgrade its hardware",
	}, lines(evaluate(in, nil)))
}

func TestManyVolumesNeedNewHostsEverywhere(t *testing.T) {
	for name, test := range map[string]struct {
		change func(in *input)
		want   bool
	}{
		"all are new":            {func(*input) {}, true},
		"one is old":             {func(in *input) { in.snapshot.VCenters[1].Hosts[1].APIVersion = "7.0.3.0" }, false},
		"one is not known":       {func(in *input) { in.snapshot.VCenters[1].Hosts[1].APIVersion = "" }, false},
		"one VM is not known":    {func(in *input) { in.snapshot.VCenters[1].VMs = nil }, false},
		"a new node has no VM":   {func(in *input) { in.cluster.nodes = append(in.cluster.nodes, node{name: "new"}) }, true},
		"there are no nodes yet": {func(in *input) { in.cluster.nodes = nil }, false},
		"an old one has no node": {func(in *input) {
			in.snapshot.VCenters[1].Hosts = append(in.snapshot.VCenters[1].Hosts, vsphere.Host{APIVersion: "6.7"})
		}, true},
	} {
		in := healthy()
		test.change(&in)
		if got := in.manyVolumes(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
