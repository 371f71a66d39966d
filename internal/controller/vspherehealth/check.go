package vspherehealth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// severity is the effect of a finding. Each severity includes the effects of the lower severities.
type severity int

const (
	_ severity = iota
	// warn causes a condition, an event and an alert.
	warn
	// blockUpgrade blocks upgrades of the cluster to the next minor version.
	blockUpgrade
	// blockInstall blocks the installation of the driver.
	blockInstall
	// degrade means that the driver does not work properly.
	degrade
)

// String returns the value of the metric's label.
func (s severity) String() string {
	return [...]string{"pass", "warn", "block-upgrade", "block-install", "degrade"}[s]
}

// finding is a problem that a check found.
type finding struct {
	check    problem
	severity severity
	// server is the vCenter with the problem. It is empty for a problem of the cluster, or of all vCenters.
	server string
	// message is a sentence that names the objects. It begins with the server, if the finding has one.
	message string
	// objects is the number of objects with the problem.
	objects int
}

// check describes one check. Its field find is the function that runs the check.
type check struct {
	name problem
	// most is the highest severity that find returns.
	most severity
	find func(in input) []finding
	// local is true if the check needs the list of vCenters, but no answer of a vCenter.
	local bool
}

// checks returns all checks, in the order in which an administrator would go through them.
func checks() []check {
	return []check{
		{connection, degrade, checkConnection, true},
		{unverified, warn, checkVerified, true},
		{userDomain, warn, checkUser, false},
		{vCenterVersion, degrade, checkVCenterVersion, false},
		{existingDriver, blockInstall, checkExistingDriver, true},
		{severalVCenters, warn, checkSeveralVCenters, true},
		{infrastructureConfig, warn, checkInfrastructure, true},
		{datacenterConfig, warn, checkDatacenters, true},
		{nodePlatform, warn, checkPlatform, true},
		{nodeProviderID, degrade, checkProviderID, true},
		{nodeVM, degrade, checkVM, false},
		{nodeHardware, degrade, checkHardware, false},
		{nodeDiskUUID, warn, checkDiskUUID, false},
		{nodeChangeTracking, warn, checkChangeTracking, false},
		{hostVersion, degrade, checkHostVersion, false},
		{hostConnection, warn, checkHostConnection, false},
		{volumeLimit, degrade, checkVolumeLimit, false},
		{defaultDatastore, degrade, checkDefaultDatastore, false},
		{failureDomain, warn, checkFailureDomains, false},
		{datastoreState, warn, checkDatastoreState, false},
		{classPlace, warn, checkClasses, false},
		{volumePlace, warn, checkVolumes, false},
		{zoneTags, warn, checkZoneTags, false},
		{hostGroups, warn, checkHostGroups, false},
		{accountPermissions, warn, checkAccountPermissions, false},
		{clusterPermissions, warn, checkClusterPermissions, false},
		{poolPermissions, warn, checkPoolPermissions, false},
		{taskPermissions, warn, checkTaskPermissions, false},
	}
}

// input is the input of all checks.
type input struct {
	snapshot vsphere.Snapshot
	config   cloudconfig.Config
	want     vsphere.Want
	cluster  cluster
	// outdated is true if no poll has covered the present Want yet.
	outdated bool
	now      time.Time
}

// cluster has the inputs that come from Kubernetes objects.
type cluster struct {
	nodes   []node
	classes []class
	volumes []volume
	// vCenters are the vCenters in the Infrastructure.
	vCenters []configv1.VSpherePlatformVCenterSpec
	// thirdParty describes a driver of the same name from another vendor. It is empty if no such driver is installed.
	thirdParty string
	// installed is true if the operator's driver exists.
	installed bool
	// maxVolumes is maxAllowedBlockVolumesPerNode of the ClusterCSIDriver. The value 0 means the default.
	maxVolumes int
	// categories are the topology categories of the ClusterCSIDriver.
	categories []string
}

// evaluate returns the findings of the checks. It keeps earlier findings that no check can confirm or resolve now.
func evaluate(in input, before []finding) []finding {
	found := slices.DeleteFunc(slices.Clone(before), func(one finding) bool { return in.canRecheck(one) })
	for _, check := range checks() {
		if check.local && check.name != connection && in.isUnconfigured() {
			continue
		}
		for _, one := range check.find(in) {
			one.check = check.name
			found = append(found, one)
		}
	}
	for i := range found {
		found[i].severity = in.effective(found[i])
	}
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(int(b.severity-a.severity), strings.Compare(string(a.check), string(b.check)), strings.Compare(a.message, b.message))
	})
	return found
}

// canRecheck reports whether the checks can tell now whether an earlier finding persists.
func (in input) canRecheck(one finding) bool {
	local := slices.ContainsFunc(checks(), func(check check) bool { return check.name == one.check && check.local })
	switch {
	case one.check == connection:
		return true
	case local:
		return !in.isUnconfigured()
	case one.server == "":
		return in.canCheckAll()
	}
	vc, configured := in.snapshot.Of(one.server)
	return in.canCheck(vc) || !configured && !in.isUnconfigured()
}

// isUnconfigured reports whether the list of vCenters is unknown.
func (in input) isUnconfigured() bool {
	return slices.ContainsFunc(in.snapshot.VCenters, func(vc vsphere.VCenter) bool { return vc.Server == "" })
}

// canCheck reports whether the checks can rely on a vCenter. The vCenter must have answered the last poll, and that poll must have covered the
// present Want.
func (in input) canCheck(vc vsphere.VCenter) bool {
	return vc.Server != "" && vc.Err == nil && !vc.Answered.IsZero() && !in.outdated
}

// vCenters returns the vCenters on which the checks can rely: see canCheck.
func (in input) vCenters() []vsphere.VCenter {
	return slices.DeleteFunc(slices.Clone(in.snapshot.VCenters), func(vc vsphere.VCenter) bool { return !in.canCheck(vc) })
}

// canCheckAll reports whether the checks can rely on all vCenters: see canCheck. An object that these vCenters lack may still exist in a vCenter on
// which the checks can't rely.
func (in input) canCheckAll() bool {
	return len(in.snapshot.VCenters) > 0 && len(in.vCenters()) == len(in.snapshot.VCenters)
}

// of returns the vCenter with this name, if the checks can rely on it: see canCheck.
func (in input) of(server string) (vsphere.VCenter, bool) {
	vc, found := in.snapshot.Of(server)
	return vc, found && in.canCheck(vc)
}

// effective returns the severity of a finding in this cluster. If the driver is installed, effective returns the severity of the check. If the driver
// is not installed, effective returns "block-install" instead of "degrade". OpenShift's operator would instead install the driver, and block upgrades
// (vmware-vsphere-csi-driver-operator 030ff0e3, check_error.go, CheckActionBlockUpgradeOrDegrade). If the driver is not installed and the vCenter
// does not answer, effective returns at most "warn", because an upgrade can't break a driver that is not installed (CheckClusterStatus in the same
// file).
func (in input) effective(one finding) severity {
	isSilent := func(vc vsphere.VCenter) bool {
		return vc.Err != nil && (one.server == "" || vc.Server == "" || vc.Server == one.server)
	}
	switch {
	case one.severity <= warn || in.cluster.installed:
		return one.severity
	case slices.ContainsFunc(in.snapshot.VCenters, isSilent):
		return warn
	case one.severity < degrade:
		return one.severity
	default:
		return blockInstall
	}
}

// mostNamed limits the number of objects that a message names.
const mostNamed = 10

// newFinding returns a finding about a vCenter. If server is empty, the finding is about the cluster. The text has one %s for the names of the
// objects.
func newFinding(server string, severity severity, objects []string, text string, more ...any) finding {
	slices.Sort(objects)
	objects = slices.Compact(objects)
	message := fmt.Sprintf(text, append([]any{status.ShortenTo(objects, mostNamed)}, more...)...)
	if server != "" {
		message = "vCenter " + server + ": " + message
	}
	return finding{severity: severity, server: server, message: message, objects: len(objects)}
}

// findingsAbout returns one finding about all these objects. It returns no finding if the list of objects is empty.
func findingsAbout(server string, severity severity, objects []string, text string, more ...any) []finding {
	if len(objects) == 0 {
		return nil
	}
	return []finding{newFinding(server, severity, objects, text, more...)}
}
