package vspherehealth

import (
	"fmt"
	"strings"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// initializing is how long a new node may be without a providerID. The cloud controller manager needs up to two minutes (operator: check_nodes.go).
const initializing = 5 * time.Minute

// placed is a node with its VM.
type placed struct {
	node
	server string
	vm     vsphere.VM
	host   vsphere.Host
	// onHost is false if it is not known on which host the VM is.
	onHost bool
}

// placed are the nodes whose VM is known, in vCenters that can be checked.
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

// perVCenter makes a finding for each vCenter with nodes or hosts of which name says something.
func (in input) perVCenter(severity severity, name func(placed) string, text string, more ...any) []finding {
	names := map[string][]string{}
	for _, one := range in.placed() {
		if text := name(one); text != "" {
			names[one.server] = append(names[one.server], text)
		}
	}
	var found []finding
	for _, vc := range in.vCenters() {
		found = append(found, some(vc.Server, severity, names[vc.Server], text, more...)...)
	}
	return found
}

// checkPlatform names nodes on which the driver does not run, because they are no VMs of vSphere. The operator degrades for them (check_nodes.go,
// validateVsphereNode); ours keeps the driver away from them (driver/vsphere/assets/node.yaml), and it works on all others.
func checkPlatform(in input) []finding {
	var names, wrong []string
	for _, one := range in.cluster.nodes {
		name := fmt.Sprintf("%s (%q)", one.name, one.elsewhere)
		switch {
		case one.elsewhere == "":
		case strings.HasPrefix(one.providerID, idPrefix):
			wrong = append(wrong, name)
		default:
			names = append(names, name)
		}
	}
	return append(
		some("", warn, names, "label %[2]s says that nodes %[1]s are not vSphere VMs: the driver does not run there, and pods with its volumes "+
			"never start there. Keep these pods off the nodes, or correct the label", platformLabel),
		some("", warn, wrong, "label %[2]s says that nodes %[1]s are not vSphere VMs, but their providerID says that they are: the driver does not run "+
			"there, and pods with its volumes neither start nor terminate. Remove the label", platformLabel)...)
}

// checkProviderID finds nodes that do not say which VM they are (operator: check_nodes.go, validateVsphereNode; detector: node_provider.go).
func checkProviderID(in input) []finding {
	var names []string
	for _, one := range in.cluster.nodes {
		if one.uuid == "" && one.elsewhere == "" && in.now.Sub(one.created) >= initializing {
			names = append(names, fmt.Sprintf("%s (%q)", one.name, one.providerID))
		}
	}
	return some("", degrade, names, "spec.providerID of nodes %[1]s does not begin with %[2]s: the driver can't attach volumes there. Check that the "+
		"cloud controller manager works. If a node is not a vSphere VM, label it %[3]s=<its platform>: the driver's pods then leave it, and their "+
		"roll-out can finish", idPrefix, platformLabel)
}

// checkVM finds nodes whose VM no vCenter has, or does not let the user see (operator: check_nodes.go, getVM; detector: vsphere_check.go, getVM).
func checkVM(in input) []finding {
	found := in.perVCenter(blockUpgrade, func(one placed) string {
		if one.vm.Hardware > 0 && one.onHost {
			return ""
		}
		return one.name
	}, "the user can't read the host or the virtual hardware of nodes %s. Grant it System.Read on the VMs and their hosts")
	if !in.seesAll() {
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
	return append(found, some("", degrade, names, "no vCenter has VMs with the UUIDs of nodes %s: the driver can't attach volumes there. "+
		"Check that the cloud configuration names their vCenter and datacenter, and that the user may see the VMs")...)
}

// checkHardware finds VMs whose virtual hardware is too old (operator: check_nodes.go; detector: pkg/operator/operator.go).
func checkHardware(in input) []finding {
	return in.perVCenter(degrade, func(one placed) string {
		if one.vm.Hardware == 0 || one.vm.Hardware >= oldestHardware {
			return ""
		}
		return fmt.Sprintf("%s (vmx-%d)", one.name, one.vm.Hardware)
	}, "the virtual hardware of nodes %s is older than vmx-%d, which the driver needs. Drain each node, shut it down and upgrade its hardware",
		oldestHardware)
}

// checkDiskUUID finds VMs that do not tell the system which disk is which (detector: node_uuid.go).
func checkDiskUUID(in input) []finding {
	return in.perVCenter(warn, func(one placed) string {
		if one.vm.DiskUUID {
			return ""
		}
		return one.name
	}, "disk.EnableUUID is off in the VMs of nodes %s: pods there can't mount volumes. Drain each node, shut it down and set it to TRUE")
}

// checkChangeTracking finds clusters in which only some VMs track changed blocks (detector: node_cbt.go).
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
	return []finding{about("", warn, names, "changed block tracking (ctkEnabled) is %[2]s in the VMs of nodes %[1]s, and %[3]s in all others: backups "+
		"of volumes fail on some nodes. Use the same setting in all VMs", state, others)}
}

// checkHostVersion finds hosts of nodes that are too old (operator: check_nodes.go; detector: pkg/operator/operator.go).
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

// checkHostConnection finds hosts of nodes that the vCenter does not reach, or whose version it does not know. It is ours.
func checkHostConnection(in input) []finding {
	return in.perVCenter(warn, func(one placed) string {
		if _, known := parseVersion(one.host.APIVersion); !one.onHost || one.host.Connected && known {
			return ""
		}
		return one.host.Name
	}, "hosts %s, which run nodes, are disconnected or have no known version: the driver can't attach volumes to these nodes. "+
		"Reconnect the hosts")
}

// checkVolumeLimit finds hosts that do not let a VM have as many volumes as the ClusterCSIDriver says (operator: check_nodes.go).
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

// manyVolumes reports whether every host of a node lets a VM have more than defaultVolumes volumes. A new node, which does not say yet which VM it
// is, does not count: the node pods of all nodes would be restarted, and again when it says so.
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
