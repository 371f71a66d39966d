package vspherehealth

import (
	"strconv"
	"strings"
)

// version is the first three numbers of a version of vSphere.
type version [3]int

// oldest returns the thresholds of OpenShift's operator and of the detector for versions of vCenter and ESXi (vmware-vsphere-csi-driver-operator
// 030ff0e3, check_vcenter.go, check_nodes.go; vsphere-problem-detector b2f09a5b, pkg/operator/operator.go). works is the oldest version with which
// the driver works. upgrades is the oldest version with which the cluster may be upgraded. newLimit is the first version of ESXi that allows more
// than defaultVolumes volumes for each VM (vmware-vsphere-csi-driver-operator 030ff0e3, check_nodes.go, pkg/operator/utils/constants.go).
func oldest() (works, upgrades, newLimit version) {
	return version{6, 7, 3}, version{7, 0, 2}, version{8, 0, 0}
}

const (
	// defaultVolumes is the limit of volumes for each node on a host with ESXi 7.
	defaultVolumes = 59
	// oldestHardware is the oldest version of virtual hardware with which the driver works (vmware-vsphere-csi-driver-operator 030ff0e3,
	// check_nodes.go).
	oldestHardware = 15
)

// parseVersion parses a text such as "7.0.2" or "7.0.2.0". Missing numbers count as 0. The second result is false if the text is no version.
func parseVersion(text string) (version, bool) {
	var parsed version
	parts := strings.Split(text, ".")
	for i := range min(len(parts), len(parsed)) {
		number, err := strconv.Atoi(parts[i])
		if err != nil || number < 0 {
			return version{}, false
		}
		parsed[i] = number
	}
	return parsed, true
}

// before reports whether this version is older than the other version.
func (v version) before(other version) bool {
	for i := range v {
		if v[i] != other[i] {
			return v[i] < other[i]
		}
	}
	return false
}

// String returns a text such as "7.0.2".
func (v version) String() string {
	return strconv.Itoa(v[0]) + "." + strconv.Itoa(v[1]) + "." + strconv.Itoa(v[2])
}
