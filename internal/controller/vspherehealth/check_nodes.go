package vspherehealth

import (
	"fmt"
	"strings"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// initializing is how long a new node may lack a providerID. The cloud controller manager needs up to two minutes to set the providerID
// (vmware-vsphere-csi-driver-operator 030ff0e3, check_nodes.go).
const initializing = 5 * time.Minute

// placed is a node with its VM.
type placed struct {
	node
	server string
	vm     vsphere.VM
	host   vsphere.Host
	// onHost is true if the host of the VM is known.
	onHost bool
}

// placed returns the nodes whose VM is in a vCenter on which the checks can rely: see canCheck.
func (in input) placed() []placed {
	byUUID := map[string]placed{}
	for _, vc := range in.vCenters() {
		hosts := map[vsphere.Ref]vsphere.Host{}
		for _, host := range vc.Hosts {
			hosts[host.Ref] = host
		}
		for _, vm := range vc.VMs {
			host, onHost := hosts[vm.Host]
			byUUID[vm.UUID] = placed{server: vc.Server, vm: vm, host: host, onHost: onHost}
		}
	}
	var found []placed
	for _, one := range in.cluster.nodes {
		if at, known := byUUID[one.uuid]; known && one.uuid != "" {
			at.node = one
			found = append(found, at)
		}
	}
	return found
}

// perVCenter calls function "name" for each node whose VM is known. The function returns a text about a node with a problem, and an empty text about
// any other node. perVCenter returns one finding for each vCenter that has nodes with the problem.
func (in input) perVCenter(severity severity, name func(placed) string, text string, more ...any) []finding {
	names := map[string][]string{}
	for _, one := range in.placed() {
		if text := name(one); text != "" {
			names[one.server] = append(names[one.server], text)
		}
	}
	var found []finding
	for _, vc := range in.vCenters() {
		found = append(found, findingsAbout(vc.Server, severity, names[vc.Server], text, more...)...)
	}
	return found
}

// checkPlatform finds nodes of other platforms, by their label. OpenShift's operator degrades if such nodes exist (vmware-vsphere-csi-driver-operator
// 030ff0e3, check_nodes.go, validateVsphereNode). This operator does not run the driver on them (driver/vsphere/assets/node.yaml), and the driver
// works on all other nodes.
func checkPlatform(in input) []finding {
	var names, wrong []string
	for _, one := range in.cluster.nodes {
		name := fmt.Sprintf("%s (%q)", one.name, one.platform)
		switch {
		case one.platform == "":
		case strings.HasPrefix(one.providerID, idPrefix):
			wrong = append(wrong, name)
		default:
			names = append(names, name)
		}
	}
	return append(
		findingsAbout("", warn, names, "label %[2]s says that nodes %[1]s are not vSphere VMs: the driver does not run there, and pods with its volumes "+
			"never start there. Keep these pods off the nodes, or correct the label", platformLabel),
		findingsAbout("", warn, wrong, "label %[2]s says that nodes %[1]s are not vSphere VMs, but their providerID says that they are: the driver does "+
			"not run there, and pods with its volumes neither start nor terminate. Remove the label", platformLabel)...)
}

// checkProviderID finds nodes whose providerID does not name a VM (vmware-vsphere-csi-driver-operator 030ff0e3, check_nodes.go, validateVsphereNode;
// vsphere-problem-detector b2f09a5b, node_provider.go).
func checkProviderID(in input) []finding {
	var names []string
	for _, one := range in.cluster.nodes {
		if one.uuid == "" && one.platform == "" && in.now.Sub(one.created) >= initializing {
			names = append(names, fmt.Sprintf("%s (%q)", one.name, one.providerID))
		}
	}
	return findingsAbout("", degrade, names, "spec.providerID of nodes %[1]s does not begin with %[2]s: the driver can't attach volumes there. Check "+
		"that the cloud controller manager works. If a node is not a vSphere VM, label it %[3]s=<its platform>: the driver's pods then leave it, "+
		"and their roll-out can finish", idPrefix, platformLabel)
}

// checkVM finds nodes whose VM no vCenter has, or whose VM the user can't see (vmware-vsphere-csi-driver-operator 030ff0e3, check_nodes.go, getVM;
// vsphere-problem-detector b2f09a5b, vsphere_check.go, getVM).
func checkVM(in input) []finding {
	found := in.perVCenter(blockUpgrade, func(one placed) string {
		if one.vm.Hardware > 0 && one.onHost {
			return ""
		}
		return one.name
	}, "the user can't read the host or the virtual hardware of nodes %s. Grant it System.Read on the VMs and their hosts")
	if !in.canCheckAll() {
		return found
	}
	known := map[string]bool{}
	for _, one := range in.placed() {
		known[one.name] = true
	}
	var names []string
	for _, one := range in.cluster.nodes {
		if one.uuid != "" && !known[one.name] {
			names = append(names, fmt.Sprintf("%s (%s)", one.name, one.uuid))
		}
	}
	return append(found, findingsAbout("", degrade, names, "no vCenter has VMs with the UUIDs of nodes %s: the driver can't attach volumes there. "+
		"Check that the cloud configuration names their vCenter and datacenter, and that the user may see the VMs")...)
}

// checkHardware finds VMs whose virtual hardware is too old (vmware-vsphere-csi-driver-operator 030ff0e3, check_nodes.go; vsphere-problem-detector
// b2f09a5b, pkg/operator/operator.go).
func checkHardware(in input) []finding {
	return in.perVCenter(degrade, func(one placed) string {
		if one.vm.Hardware == 0 || one.vm.Hardware >= oldestHardware {
			return ""
		}
		return fmt.Sprintf("%s (vmx-%d)", one.name, one.vm.Hardware)
	}, "the virtual hardware of nodes %s is older than vmx-%d, which the driver needs. Drain each node, shut it down and upgrade its hardware",
		oldestHardware)
}

// checkDiskUUID finds VMs that do not show UUIDs of disks to the guest (vsphere-problem-detector b2f09a5b, node_uuid.go).
func checkDiskUUID(in input) []finding {
	return in.perVCenter(warn, func(one placed) string {
		if one.vm.DiskUUID {
			return ""
		}
		return one.name
	}, "disk.EnableUUID is off in the VMs of nodes %s: pods there can't mount volumes. Drain each node, shut its VM down and "+
		"set disk.EnableUUID to TRUE")
}

// checkChangeTracking finds clusters in which some VMs, but not all, have changed block tracking (vsphere-problem-detector b2f09a5b, node_cbt.go).
func checkChangeTracking(in input) []finding {
	var on, off []string
	for _, one := range in.placed() {
		if one.vm.CBT {
			on = append(on, one.name)
		} else {
			off = append(off, one.name)
		}
	}
	if len(on) == 0 || len(off) == 0 {
		return nil
	}
	names, state, others := off, "off", "on"
	if len(on) < len(off) {
		names, state, others = on, "on", "off"
	}
	return []finding{newFinding("", warn, names, "changed block tracking (ctkEnabled) is %[2]s in the VMs of nodes %[1]s, and %[3]s in all others: "+
		"backups of volumes fail on some nodes. Use the same setting in all VMs", state, others)}
}

// checkHostVersion finds hosts that run nodes and have a version of ESXi that is too old (vmware-vsphere-csi-driver-operator 030ff0e3,
// check_nodes.go; vsphere-problem-detector b2f09a5b, pkg/operator/operator.go).
func checkHostVersion(in input) []finding {
	works, upgrades, _ := oldest()
	named := func(from, to version) func(placed) string {
		return func(one placed) string {
			have, known := parseVersion(one.host.APIVersion)
			if !known || !one.onHost || have.before(from) || !have.before(to) {
				return ""
			}
			return fmt.Sprintf("%s (%s)", one.host.Name, one.host.APIVersion)
		}
	}
	return append(
		in.perVCenter(degrade, named(version{}, works), "ESXi of hosts %s is too old: the driver needs %s. Upgrade the hosts to %s or newer",
			works, upgrades),
		in.perVCenter(blockUpgrade, named(works, upgrades), "ESXi of hosts %s is older than %s. Upgrade the hosts before the cluster", upgrades)...)
}

// checkHostConnection finds hosts that run nodes and are disconnected, or have no known version. Neither OpenShift's operator nor the detector has
// this check.
func checkHostConnection(in input) []finding {
	return in.perVCenter(warn, func(one placed) string {
		if _, known := parseVersion(one.host.APIVersion); !one.onHost || one.host.Connected && known {
			return ""
		}
		return one.host.Name
	}, "hosts %s, which run nodes, are disconnected or have no known version: the driver can't attach volumes to these nodes. "+
		"Reconnect the hosts")
}

// checkVolumeLimit finds hosts that allow fewer volumes for each VM than the ClusterCSIDriver sets (vmware-vsphere-csi-driver-operator 030ff0e3,
// check_nodes.go).
func checkVolumeLimit(in input) []finding {
	if in.cluster.maxVolumes <= defaultVolumes {
		return nil
	}
	_, _, needed := oldest()
	return in.perVCenter(degrade, func(one placed) string {
		have, known := parseVersion(one.host.APIVersion)
		if !known || !one.onHost || !have.before(needed) {
			return ""
		}
		return fmt.Sprintf("%s (%s)", one.host.Name, one.host.APIVersion)
	}, "maxAllowedBlockVolumesPerNode is %[2]d, but ESXi of hosts %[1]s allows %[3]d for each VM. Upgrade the hosts to %[4]s or newer, or lower the "+
		"number in the ClusterCSIDriver", in.cluster.maxVolumes, defaultVolumes, needed)
}

// manyVolumes reports whether all hosts that run nodes allow more than defaultVolumes volumes for each VM. New nodes without a providerID do not
// count. If they counted, each new node would change the result twice, and each change of the result restarts all node pods.
func (in input) manyVolumes() bool {
	all := in.placed()
	_, _, needed := oldest()
	for _, one := range all {
		if have, known := parseVersion(one.host.APIVersion); !known || !one.onHost || have.before(needed) {
			return false
		}
	}
	wanted := 0
	for _, one := range in.cluster.nodes {
		if one.uuid != "" {
			wanted++
		}
	}
	return len(all) > 0 && len(all) == wanted
}
