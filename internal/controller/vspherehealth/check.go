// Package vspherehealth checks what vCenters have of a cluster: whether their versions, the nodes' VMs, datastores, tags and permissions let the CSI
// driver work. It replaces the checks of two programs, whose thresholds are named at each check:
//
//   - operator: openshift/vmware-vsphere-csi-driver-operator 030ff0e3, pkg/operator/vspherecontroller/checks
//   - detector: openshift/vsphere-problem-detector b2f09a5b, pkg/check
//
// Checks are pure functions. A vCenter that does not answer is not checked: what was found before stays, as the conditions have it.
//
// read.go says what a poll asks for (Want). Each new Snapshot of cloud/vsphere wakes reconciler.go, evaluate runs the checks, and conditions.go
// writes their findings. The trip reads whether the driver may be installed (Facts), through derived.Cloud. Why: docs/decisions/0045, 0046 and 0047.
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

// severity says what follows of a finding. Each has the effects of those below it.
type severity int

const (
	_ severity = iota
	// warn ends in a condition, an event and an alert.
	warn
	// blockUpgrade keeps the cluster from the next minor version.
	blockUpgrade
	// blockInstall keeps the driver from being installed where it is not there.
	blockInstall
	// degrade says that the driver does not work as it should.
	degrade
)

// String is the value of a metric's label.
func (s severity) String() string {
	return [...]string{"pass", "warn", "block-upgrade", "block-install", "degrade"}[s]
}

// finding is one thing that is wrong.
type finding struct {
	check    problem
	severity severity
	// server is the vCenter that it is about; empty if it is about the cluster, or about all.
	server string
	// message is a sentence that names the objects. Where there is a server, it begins with that.
	message string
	// objects are how many it is about.
	objects int
}

// check is one thing that is looked at.
type check struct {
	name problem
	// most is the highest severity that find gives.
	most severity
	find func(in input) []finding
	// local means that no vCenter has to answer for it: which ones there are is enough.
	local bool
}

// checks are all of them, in the order in which an administrator would look.
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

// input is what checks depend on.
type input struct {
	snapshot vsphere.Snapshot
	config   cloudconfig.Config
	want     vsphere.Want
	cluster  cluster
	// outdated means that the vCenters were not asked about all of want yet.
	outdated bool
	now      time.Time
}

// cluster is the side of the cluster.
type cluster struct {
	nodes   []node
	classes []class
	volumes []volume
	// vCenters are those of the Infrastructure.
	vCenters []configv1.VSpherePlatformVCenterSpec
	// thirdParty says which driver of the same name somebody else has installed; empty if nobody has.
	thirdParty string
	// installed means that the operator's driver is there.
	installed bool
	// maxVolumes is what the ClusterCSIDriver lets a node have; 0 is the default.
	maxVolumes int
	// categories are the topology categories of the ClusterCSIDriver.
	categories []string
}

// evaluate says what is wrong: what the checks find, and what was found before of vCenters about which nobody knows now.
func evaluate(in input, before []finding) []finding {
	found := slices.DeleteFunc(slices.Clone(before), func(one finding) bool { return in.settled(one) })
	for _, check := range checks() {
		if check.local && check.name != connection && in.blind() {
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

// settled reports whether the checks know of themselves whether a finding is still there.
func (in input) settled(one finding) bool {
	local := slices.ContainsFunc(checks(), func(check check) bool { return check.name == one.check && check.local })
	switch {
	case one.check == connection:
		return true
	case local:
		return !in.blind()
	case one.server == "":
		return in.seesAll()
	}
	vc, configured := in.snapshot.Of(one.server)
	return in.sees(vc) || !configured && !in.blind()
}

// blind reports whether nothing is known of which vCenters there are.
func (in input) blind() bool {
	return slices.ContainsFunc(in.snapshot.VCenters, func(vc vsphere.VCenter) bool { return vc.Server == "" })
}

// sees reports whether a vCenter has answered in the last poll, and was asked about all that matters.
func (in input) sees(vc vsphere.VCenter) bool {
	return vc.Server != "" && vc.Err == nil && !vc.Answered.IsZero() && !in.outdated
}

// vCenters are the ones that can be checked.
func (in input) vCenters() []vsphere.VCenter {
	return slices.DeleteFunc(slices.Clone(in.snapshot.VCenters), func(vc vsphere.VCenter) bool { return !in.sees(vc) })
}

// seesAll reports whether all vCenters can be checked: what is in none of them is nowhere.
func (in input) seesAll() bool {
	return len(in.snapshot.VCenters) > 0 && len(in.vCenters()) == len(in.snapshot.VCenters)
}

// of gives a vCenter that can be checked.
func (in input) of(server string) (vsphere.VCenter, bool) {
	vc, found := in.snapshot.Of(server)
	return vc, found && in.sees(vc)
}

// effective is the severity of a finding in this cluster. What the driver can't work with degrades where the driver is installed. Where it is not,
// the operator only blocks upgrades, and installs the driver (check_error.go, CheckActionBlockUpgradeOrDegrade). This one does not install it.
// What a vCenter would have to say blocks nothing while it does not answer (CheckClusterStatus): an upgrade breaks no driver that is not there.
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

// mostNamed is how many objects of a finding are named.
const mostNamed = 10

// about makes a finding of a vCenter, or of the cluster if server is empty. The text has one %s, for the names of the objects.
func about(server string, severity severity, objects []string, text string, more ...any) finding {
	slices.Sort(objects)
	objects = slices.Compact(objects)
	message := fmt.Sprintf(text, append([]any{status.ShortenTo(objects, mostNamed)}, more...)...)
	if server != "" {
		message = "vCenter " + server + ": " + message
	}
	return finding{severity: severity, server: server, message: message, objects: len(objects)}
}

// some is a finding if there are objects that it is about, and nothing else.
func some(server string, severity severity, objects []string, text string, more ...any) []finding {
	if len(objects) == 0 {
		return nil
	}
	return []finding{about(server, severity, objects, text, more...)}
}
