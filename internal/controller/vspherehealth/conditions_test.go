package vspherehealth

import (
	"fmt"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// brief are conditions as text.
func brief(all []operatorv1.OperatorCondition) []string {
	var told []string
	for _, one := range all {
		told = append(told, strings.TrimSpace(fmt.Sprintf("%s=%s/%s %s", one.Type, one.Status, one.Reason, strings.ReplaceAll(one.Message, "\n", " | "))))
	}
	return told
}

func TestConditionsSayWhatFollowsOfFindings(t *testing.T) {
	of := func(check problem, severity severity, message string) finding {
		return finding{check: check, severity: severity, message: message, objects: 1}
	}
	const upgradeable, degraded, warning = "VMwareVSphereControllerUpgradeable", "VMwareVSphereOperatorCheckDegraded", "VMwareVSphereOperatorCheckWarning"
	for name, test := range map[string]struct {
		found []finding
		want  []string
	}{
		"nothing": {nil, []string{upgradeable + "=True/AsExpected", degraded + "=False/AsExpected", warning + "=False/AsExpected"}},
		"a warning": {[]finding{of(zoneTags, warn, "x")}, []string{
			upgradeable + "=True/AsExpected", degraded + "=False/AsExpected", warning + "=True/ZoneTags ZoneTags: x",
		}},
		"what blocks upgrades": {[]finding{of(hostVersion, blockUpgrade, "x")}, []string{
			upgradeable + "=False/HostVersion HostVersion: x", degraded + "=False/AsExpected", warning + "=False/AsExpected",
		}},
		"what blocks the installation": {[]finding{of(existingDriver, blockInstall, "x")}, []string{
			upgradeable + "=False/ExistingDriver ExistingDriver: x", degraded + "=False/AsExpected", warning + "=False/AsExpected",
		}},
		"what degrades": {[]finding{of(nodeVM, degrade, "x")}, []string{
			upgradeable + "=False/NodeVM NodeVM: x", degraded + "=True/NodeVM NodeVM: x", warning + "=False/AsExpected",
		}},
		"several, in any order": {[]finding{of(nodeVM, degrade, "x"), of(hostVersion, degrade, "b"), of(hostVersion, blockUpgrade, "a\nb")}, []string{
			upgradeable + "=False/Multiple HostVersion: a b | HostVersion: b | NodeVM: x", degraded + "=True/Multiple HostVersion: b | NodeVM: x",
			warning + "=False/AsExpected",
		}},
		"several of one check": {[]finding{of(zoneTags, warn, "y"), of(zoneTags, warn, "x")}, []string{
			upgradeable + "=True/AsExpected", degraded + "=False/AsExpected", warning + "=True/ZoneTags ZoneTags: x | ZoneTags: y",
		}},
	} {
		t.Run(name, func(t *testing.T) { diff(t, test.want, brief(conditions(test.found))) })
	}
}

func TestConditionsAreTheMemoryOfFindings(t *testing.T) {
	in := healthy()
	vc := &in.snapshot.VCenters[0]
	vc.Hosts[0].APIVersion, vc.Hosts[1].APIVersion, in.cluster.maxVolumes = "6.5.0", "7.0.1", 0
	vc.VMs[0].DiskUUID, in.cluster.thirdParty, in.snapshot.VCenters[1].CanReadTasks = false, "CSIDriver x", false
	found := evaluate(in, nil)
	again := findingsIn(conditions(found))
	want := lines(found)
	if len(want) != 5 {
		t.Fatalf("found %v", want)
	}
	seen := map[string]bool{}
	for _, line := range lines(again) {
		seen[line] = true
	}
	for _, line := range want {
		if !seen[line] {
			t.Errorf("forgotten: %s", line)
		}
	}
	for _, one := range again {
		if server := strings.HasPrefix(one.message, "vCenter vc"); server != (one.server == "vc1" || one.server == "vc2") {
			t.Errorf("%s is of vCenter %q", one.message, one.server)
		}
	}
	if len(again) != len(want) {
		t.Errorf("remembered %v", lines(again))
	}
}

func TestWhatAPredecessorHasWrittenIsNoFinding(t *testing.T) {
	found := findingsIn([]operatorv1.OperatorCondition{
		{Type: degradedType, Status: operatorv1.ConditionTrue, Reason: "check_deprecated_esxi_version", Message: "host host-1 is on ESXI version 6.7.0"},
		{Type: "OtherDegraded", Status: operatorv1.ConditionTrue, Message: "NodeVM: x"},
	})
	if len(found) > 0 {
		t.Errorf("remembered %v", lines(found))
	}
}

func TestNewsAreWhatBeginsAndWhatHeals(t *testing.T) {
	a := finding{check: hostVersion, severity: blockUpgrade, server: "vc1", message: "one host"}
	other := a
	other.message = "two hosts"
	worse := a
	worse.severity = degrade
	inOther := a
	inOther.server = "vc2"
	installing, blocking := finding{check: nodeVM, severity: blockInstall}, finding{check: nodeVM, severity: blockUpgrade}
	for name, test := range map[string]struct {
		before, now, begun, healed []finding
	}{
		"begins":                         {nil, []finding{a}, []finding{a}, nil},
		"heals":                          {[]finding{a}, nil, nil, []finding{a}},
		"goes on":                        {[]finding{a}, []finding{a}, nil, nil},
		"goes on with other objects":     {[]finding{a}, []finding{other}, nil, nil},
		"gets worse":                     {[]finding{a}, []finding{a, worse}, []finding{worse}, nil},
		"gets better":                    {[]finding{a, worse}, []finding{a}, nil, nil},
		"begins in another vCenter":      {[]finding{a}, []finding{a, inOther}, []finding{inOther}, nil},
		"heals in one of two":            {[]finding{a, inOther}, []finding{a}, nil, []finding{inOther}},
		"conditions do not tell the two": {[]finding{blocking}, []finding{installing}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			begun, healed := changes(test.before, test.now)
			diff(t, lines(test.begun), lines(begun))
			diff(t, lines(test.healed), lines(healed))
		})
	}
}

func TestOnlyADriverThatIsNotThereIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		installed bool
		found     []finding
		want      string
	}{
		"nothing":   {false, nil, ""},
		"a warning": {false, []finding{{check: zoneTags, severity: warn}, {check: hostVersion, severity: blockUpgrade}}, ""},
		"two": {false, []finding{{check: nodeProviderID, severity: degrade, message: "no ID"}, {check: existingDriver, severity: blockInstall, message: "another"}},
			"NodeProviderID: no ID; ExistingDriver: another"},
		"it is there": {true, []finding{{check: nodeProviderID, severity: degrade, message: "no ID"}}, ""},
	} {
		if got := refused(input{cluster: cluster{installed: test.installed}}, test.found); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// broken breaks a healthy cluster in one way for each check.
func broken() map[problem]func(in *input, vc *vsphere.VCenter) {
	return map[problem]func(in *input, vc *vsphere.VCenter){
		connection:     func(_ *input, vc *vsphere.VCenter) { vc.Err = failing("vc1", vsphere.LoginRefused) },
		unverified:     func(_ *input, vc *vsphere.VCenter) { vc.Insecure = true },
		userDomain:     func(_ *input, vc *vsphere.VCenter) { vc.Login = "ocp" },
		vCenterVersion: func(_ *input, vc *vsphere.VCenter) { vc.APIVersion = "6.7.0" },
		existingDriver: func(in *input, _ *vsphere.VCenter) { in.cluster.thirdParty = "CSIDriver x" },
		severalVCenters: func(in *input, _ *vsphere.VCenter) {
			in.cluster.volumes = []volume{{name: "pv", inTree: true, datastore: "ds"}}
		},
		infrastructureConfig: func(in *input, _ *vsphere.VCenter) { in.config.VCenters = in.config.VCenters[1:] },
		datacenterConfig:     func(in *input, _ *vsphere.VCenter) { in.config.VCenters[0].Datacenters = nil },
		nodePlatform:         func(in *input, _ *vsphere.VCenter) { in.cluster.nodes[0].platform = "baremetal" },
		nodeProviderID:       func(in *input, _ *vsphere.VCenter) { in.cluster.nodes[0].uuid = "" },
		nodeVM:               func(_ *input, vc *vsphere.VCenter) { vc.VMs = vc.VMs[1:] },
		nodeHardware:         func(_ *input, vc *vsphere.VCenter) { vc.VMs[0].Hardware = 13 },
		nodeDiskUUID:         func(_ *input, vc *vsphere.VCenter) { vc.VMs[0].DiskUUID = false },
		nodeChangeTracking:   func(_ *input, vc *vsphere.VCenter) { vc.VMs[0].CBT = true },
		hostVersion:          func(in *input, vc *vsphere.VCenter) { in.cluster.maxVolumes, vc.Hosts[0].APIVersion = 0, "6.5" },
		hostConnection:       func(_ *input, vc *vsphere.VCenter) { vc.Hosts[0].Connected = false },
		volumeLimit:          func(_ *input, vc *vsphere.VCenter) { vc.Hosts[0].APIVersion = "7.0.3" },
		defaultDatastore:     func(in *input, _ *vsphere.VCenter) { in.want.FailureDomains[0].Topology.Datastore = "x" },
		failureDomain:        func(_ *input, vc *vsphere.VCenter) { vc.Folders[0].Ref = vsphere.Ref{} },
		datastoreState:       func(_ *input, vc *vsphere.VCenter) { vc.Datastores[0].Accessible = false },
		classPlace:           func(in *input, vc *vsphere.VCenter) { vc.Policies, in.snapshot.VCenters[1].Policies = nil, nil },
		volumePlace: func(in *input, _ *vsphere.VCenter) {
			in.snapshot.VCenters, in.cluster.nodes = in.snapshot.VCenters[:1], in.cluster.nodes[:2]
			in.cluster.volumes = []volume{{name: "pv", inTree: true, datastore: "gone"}}
		},
		zoneTags: func(_ *input, vc *vsphere.VCenter) { vc.Tags = nil },
		hostGroups: func(in *input, vc *vsphere.VCenter) {
			domain := domainWithGroup()
			vc.Clusters[0].VMGroups, in.want.FailureDomains[0] = nil, domain
		},
		accountPermissions: func(_ *input, vc *vsphere.VCenter) { vc.Privileges[0].Missing = []string{"Cns.Searchable"} },
		clusterPermissions: func(_ *input, vc *vsphere.VCenter) { vc.Privileges[1].Missing = []string{"VApp.Import"} },
		poolPermissions: func(_ *input, vc *vsphere.VCenter) {
			vc.Privileges = append(vc.Privileges, vsphere.Privileges{Kind: vsphere.OnResourcePool, Path: "/p/own", Missing: []string{"VApp.Import"}})
		},
		taskPermissions: func(_ *input, vc *vsphere.VCenter) { vc.CanReadTasks = false },
	}
}

// Else there would be two events at each look.
func TestAConfigurationThatIsWrongIsNewsOnce(t *testing.T) {
	in := healthy()
	in.snapshot.VCenters = []vsphere.VCenter{{Err: &vsphere.Error{What: "read", Reason: cloudconfig.InvalidConfiguration, Why: "line 3: no pair"}}}
	found := evaluate(in, nil)
	before := findingsIn(conditions(found))
	begun, healed := changes(before, evaluate(in, before))
	if len(found) != 1 || len(begun)+len(healed) > 0 {
		t.Errorf("found %v, begun %v, healed %v", lines(found), lines(begun), lines(healed))
	}
}

func TestEveryCheckFailsAndHeals(t *testing.T) {
	for _, check := range checks() {
		t.Run(string(check.name), func(t *testing.T) {
			in := healthy()
			breaks, known := broken()[check.name]
			if !known {
				t.Fatal("there is no case in which it fails")
			}
			breaks(&in, &in.snapshot.VCenters[0])
			found := evaluate(in, nil)
			if len(found) != 1 || found[0].check != check.name || found[0].severity > check.most {
				t.Errorf("found %v", lines(found))
			}
			before := findingsIn(conditions(found))
			begun, _ := changes(nil, before)
			_, healed := changes(before, evaluate(healthy(), before))
			if len(begun) != 1 || len(healed) != 1 {
				t.Errorf("begun %v, healed %v", lines(begun), lines(healed))
			}
		})
	}
}
