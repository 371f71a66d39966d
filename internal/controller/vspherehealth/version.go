package vspherehealth

import (
	"strconv"
	"strings"
)

// version is the first three numbers of a version of vSphere.
type version [3]int

// oldest are the thresholds of both programs: the oldest version of vCenter and ESXi that the driver works with, and the oldest one with which the
// cluster may be upgraded (operator: check_vcenter.go, check_nodes.go; detector: pkg/operator/operator.go). newLimit is the first one of ESXi whose
// VMs can have more than defaultVolumes volumes (operator: check_nodes.go, pkg/operator/utils/constants.go).
func oldest() (works, upgrades, newLimit version) {
	return version{6, 7, 3}, version{7, 0, 2}, version{8, 0, 0}
}

const (
	// defaultVolumes is how many volumes a node has at most with ESXi 7.
	defaultVolumes = 59
	// oldestHardware is the oldest version of virtual hardware that the driver works with (operator: check_nodes.go).
	oldestHardware = 15
)

// parseVersion reads "7.0.2" or "7.0.2.0"; what is missing is 0.
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

// before reports whether a version is older than another.
func (v version) before(other version) bool {
	for i := range v {
		if v[i] != other[i] {
			return v[i] < other[i]
		}
	}
	return false
}

// String is such as "7.0.2".
func (v version) String() string {
	return strconv.Itoa(v[0]) + "." + strconv.Itoa(v[1]) + "." + strconv.Itoa(v[2])
}
