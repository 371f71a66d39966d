package vspherehealth

import (
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

func failing(server string, reason vsphere.Reason) *vsphere.Error {
	return &vsphere.Error{Server: server, What: "log in", Reason: reason, Why: "the cause"}
}

func TestVCentersThatDoNotAnswerAreFound(t *testing.T) {
	const degraded = "degrade VCenterConnection 1: vCenter vc1: log in: the cause"
	failed := func(reason vsphere.Reason, since time.Duration) func(*input, *vsphere.VCenter) {
		return func(_ *input, vc *vsphere.VCenter) {
			vc.Err, vc.FailingSince = failing("vc1", reason), noon().Add(-since)
		}
	}
	run(t, healthy, map[string]row{
		"just now":                     {failed(vsphere.Timeout, time.Second), nil},
		"for almost two minutes":       {failed(vsphere.NoConnection, 2*time.Minute-time.Second), nil},
		"for two minutes":              {failed(vsphere.NoConnection, 2*time.Minute), []string{degraded}},
		"overloaded for long":          {failed(vsphere.Overloaded, time.Hour), []string{degraded}},
		"the Secret is not there yet":  {failed(cloudconfig.InvalidCredentials, time.Second), nil},
		"the Secret never came":        {failed(cloudconfig.InvalidCredentials, time.Hour), []string{degraded}},
		"the login is refused":         {failed(vsphere.LoginRefused, 0), []string{degraded}},
		"the user may do nothing":      {failed(vsphere.NotAuthorized, 0), []string{degraded}},
		"the certificate is another's": {failed(vsphere.UntrustedCertificate, 0), []string{degraded}},
		"the configuration is wrong": {func(in *input, _ *vsphere.VCenter) {
			in.snapshot.VCenters = []vsphere.VCenter{{Err: &vsphere.Error{What: "parse", Reason: cloudconfig.InvalidConfiguration, Why: "line 3 is no pair"}}}
		}, []string{"degrade VCenterConnection 1: vCenter configuration: parse: line 3 is no pair"}},
	})
}

// Where the driver was never installed, the cluster lacks nothing. What vCenters would have to say keeps nobody from an upgrade while they are
// silent.
func TestOfADriverThatWasNeverInstalledNothingDegrades(t *testing.T) {
	const silent, noID = "warn VCenterConnection 1: vCenter vc1: log in: the cause", `NodeProviderID 1: spec.providerID of nodes dc1-1 ("") does not ` +
		`begin with ` +
		"vsphere://: the driver can't attach volumes there. Check that the cloud controller " +
		"manager works. If a node is not a vSphere VM, label it node.openshift.io/platform-type=<its platform>: the driver's pods then leave it, and " +
		"their roll-out can finish"
	absent := func() input {
		in := healthy()
		in.cluster.installed = false
		return in
	}
	refuses := func(_ *input, vc *vsphere.VCenter) { vc.Err = failing("vc1", vsphere.LoginRefused) }
	noProvider := func(in *input, _ *vsphere.VCenter) {
		in.cluster.nodes[0].uuid, in.cluster.nodes[0].providerID = "", ""
	}
	run(t, absent, map[string]row{
		"a vCenter is silent":                   {refuses, []string{silent}},
		"nodes do not say where they are":       {noProvider, []string{"block-install " + noID}},
		"nodes do not, and a vCenter is silent": {func(in *input, vc *vsphere.VCenter) { refuses(in, vc); noProvider(in, vc) }, []string{"warn " + noID, silent}},
		"the other vCenter answers, with trouble": {func(in *input, vc *vsphere.VCenter) {
			refuses(in, vc)
			in.snapshot.VCenters[1].APIVersion = "6.7.2"
		}, []string{
			"block-install VCenterVersion 1: vCenter vc2: its version is 6.7.2, and the driver needs 6.7.3. Upgrade the vCenter to 7.0.2 or newer", silent,
		}},
		"hosts allow fewer volumes": {func(in *input, vc *vsphere.VCenter) {
			in.cluster.maxVolumes, vc.Hosts[0].Version, vc.Hosts[0].APIVersion = 100, "7.0.3", "7.0.3.0"
		}, []string{
			"block-install VolumeLimit 1: vCenter vc1: maxAllowedBlockVolumesPerNode is 100, but ESXi of hosts esx1.dc1 (7.0.3.0) allows 59 for each VM. " +
				"Upgrade the hosts to 8.0.0 or newer, or lower the number in the ClusterCSIDriver",
		}},
		"the configuration is wrong": {func(in *input, _ *vsphere.VCenter) {
			in.snapshot.VCenters = []vsphere.VCenter{{Err: &vsphere.Error{What: "parse", Reason: cloudconfig.InvalidConfiguration, Why: "line 3 is no pair"}}}
		}, []string{"warn VCenterConnection 1: vCenter configuration: parse: line 3 is no pair"}},
	})
}

func TestAVCenterThatDoesNotAnswerIsNotChecked(t *testing.T) {
	in := healthy()
	vc := &in.snapshot.VCenters[0]
	vc.Err, vc.FailingSince = failing("vc1", vsphere.Timeout), noon()
	// Nothing of what it said last counts, nor that its VMs are nowhere.
	vc.APIVersion, vc.Login, vc.VMs, vc.Datastores, vc.Policies, vc.Tags, vc.CanReadTasks, vc.Privileges = "6.0", "x", nil, nil, nil, nil, false, nil
	if found := evaluate(in, nil); len(found) > 0 {
		t.Errorf("found %v", lines(found))
	}
	vc.Err = nil
	if found := evaluate(in, nil); len(found) < 6 {
		t.Errorf("when it answers: found %v", lines(found))
	}
	in.outdated = true
	if found := evaluate(in, nil); len(found) > 0 {
		t.Errorf("not asked about all yet: found %v", lines(found))
	}
	in.outdated, vc.Answered = false, time.Time{}
	if found := evaluate(in, nil); len(found) > 0 {
		t.Errorf("not asked ever: found %v", lines(found))
	}
}

func TestWhatWasFoundBeforeStaysAsLongAsNobodyKnows(t *testing.T) {
	old := func(check problem, server string) finding {
		return finding{check: check, severity: warn, server: server, message: "old", objects: 1}
	}
	for name, test := range map[string]struct {
		change func(in *input, vc *vsphere.VCenter)
		want   []string
	}{
		"all answer": {func(*input, *vsphere.VCenter) {}, nil},
		"one does not": {func(_ *input, vc *vsphere.VCenter) { vc.Err, vc.FailingSince = failing("vc1", vsphere.Timeout), noon() }, []string{
			"warn NodeVM 1: old", "warn TaskPermissions 1: old",
		}},
		"they were not asked about all": {func(in *input, _ *vsphere.VCenter) { in.outdated = true }, []string{
			"warn NodeVM 1: old", "warn TaskPermissions 1: old", "warn ZoneTags 1: old",
		}},
		"nobody knows which there are": {func(in *input, _ *vsphere.VCenter) {
			in.snapshot.VCenters = []vsphere.VCenter{{Err: failing("", vsphere.Timeout), FailingSince: noon()}}
		}, []string{
			"warn ExistingDriver 1: old", "warn HostVersion 1: old", "warn NodeVM 1: old", "warn TaskPermissions 1: old", "warn ZoneTags 1: old",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in := healthy()
			test.change(&in, &in.snapshot.VCenters[0])
			found := evaluate(in, []finding{
				old(connection, "vc1"), old(taskPermissions, "vc1"), old(zoneTags, "vc2"), old(existingDriver, ""), old(hostVersion, "gone"), old(nodeVM, ""),
			})
			diff(t, test.want, lines(found))
		})
	}
}

func TestEachThingWrongWithAVCenterIsFound(t *testing.T) {
	run(t, healthy, map[string]row{
		"VCenterCertificateNotVerified": {func(_ *input, vc *vsphere.VCenter) { vc.Insecure = true }, []string{
			"warn VCenterCertificateNotVerified 1: the cloud configuration sets insecure-flag for vc1: an attacker between the cluster and the vCenter can " +
				"read the password. Add the CA of the vCenter to the cluster's trusted CAs, and remove insecure-flag",
		}},
		"VCenterUserWithoutDomain": {func(_ *input, vc *vsphere.VCenter) { vc.Login = "admin" }, []string{
			`warn VCenterUserWithoutDomain 1: vCenter vc1: user "admin" has no domain; ` + cloudconfig.UserAdvice + ". Correct it in Secret kube-system/vsphere-creds",
		}},
		"a user with two domains": {func(_ *input, vc *vsphere.VCenter) { vc.Login = "svc@corp.example@vsphere.example" }, []string{
			`warn VCenterUserWithoutDomain 1: vCenter vc1: user "svc@corp.example@vsphere.example" has more than one @; ` + cloudconfig.UserAdvice +
				". Correct it in Secret kube-system/vsphere-creds",
		}},
		// The vCenter has added its own domain.
		"a user with the domain of the session": {func(_ *input, vc *vsphere.VCenter) { vc.User, vc.Login = `VSPHERE.LOCAL\ocp`, "ocp@vsphere.local" }, nil},
		"a user in the other form":              {func(_ *input, vc *vsphere.VCenter) { vc.Login = `CORP\ocp` }, nil},
		"VCenterVersion: works with it no more": {func(_ *input, vc *vsphere.VCenter) { vc.APIVersion = "6.7.2" }, []string{
			"degrade VCenterVersion 1: vCenter vc1: its version is 6.7.2, and the driver needs 6.7.3. Upgrade the vCenter to 7.0.2 or newer",
		}},
		"VCenterVersion: the same without the driver": {func(in *input, vc *vsphere.VCenter) { vc.APIVersion, in.cluster.installed = "6.7.2", false }, []string{
			"block-install VCenterVersion 1: vCenter vc1: its version is 6.7.2, and the driver needs 6.7.3. Upgrade the vCenter to 7.0.2 or newer",
		}},
		"VCenterVersion: not for upgrades": {func(_ *input, vc *vsphere.VCenter) { vc.APIVersion = "7.0.1.1" }, []string{
			"block-upgrade VCenterVersion 1: vCenter vc1: its version is 7.0.1.1. Upgrade the vCenter to 7.0.2 or newer before you update OpenShift",
		}},
		"VCenterVersion: just old enough": {func(_ *input, vc *vsphere.VCenter) { vc.APIVersion = "6.7.3" }, []string{
			"block-upgrade VCenterVersion 1: vCenter vc1: its version is 6.7.3. Upgrade the vCenter to 7.0.2 or newer before you update OpenShift",
		}},
		"VCenterVersion: just new enough": {func(_ *input, vc *vsphere.VCenter) { vc.APIVersion = "7.0.2" }, nil},
		"VCenterVersion: unreadable": {func(_ *input, vc *vsphere.VCenter) { vc.APIVersion = "unset" }, []string{
			`block-upgrade VCenterVersion 1: vCenter vc1: its version "unset" can't be parsed, so it may be too old`,
		}},
		"ExistingDriver": {func(in *input, _ *vsphere.VCenter) { in.cluster.thirdParty = "CSIDriver csi.vsphere.vmware.com" }, []string{
			"block-install ExistingDriver 1: another vendor's vSphere driver is installed: CSIDriver csi.vsphere.vmware.com. Uninstall it as its vendor " +
				"documents, or set managementState Removed in the ClusterCSIDriver",
		}},
		"SeveralVCenters": {func(in *input, _ *vsphere.VCenter) {
			in.cluster.volumes = []volume{{name: "pv-9", inTree: true}, {name: "pv-8", inTree: true}, {name: "pv-1"}}
		}, []string{
			"warn SeveralVCenters 2: PersistentVolumes pv-8, pv-9 use the in-tree plugin kubernetes.io/vsphere-volume, which the driver can't replace in " +
				"clusters with several vCenters. Copy their data to volumes of the driver",
		}},
		"TaskPermissions": {func(_ *input, vc *vsphere.VCenter) { vc.CanReadTasks = false }, []string{
			"warn TaskPermissions 1: vCenter vc1: user ocp@vsphere.local may not list recent tasks, for which the driver waits. Grant it the role " +
				"Read-only on the root of the vCenter",
		}},
	})
	run(t, single, map[string]row{
		"SeveralVCenters: one vCenter": {func(in *input, _ *vsphere.VCenter) {
			in.cluster.volumes = []volume{{name: "pv-9", inTree: true, datastore: "ds"}}
		}, nil},
	})
}

func TestVersionsAreCompared(t *testing.T) {
	for text, want := range map[string]string{
		"8": "8.0.0", "7.0": "7.0.0", "7.0.3.0": "7.0.3", "10.20.30.40": "10.20.30", "": "", "x": "", "7.x": "", "7.-1": "",
	} {
		if got, known := parseVersion(text); known != (want != "") || known && got.String() != want {
			t.Errorf("%q: %s, %t; want %s", text, got, known, want)
		}
	}
	for _, pair := range [][2]version{{{6, 7, 3}, {7, 0, 0}}, {{7, 0, 1}, {7, 0, 2}}, {{7, 9, 9}, {10, 0, 0}}} {
		if !pair[0].before(pair[1]) || pair[1].before(pair[0]) || pair[0].before(pair[0]) {
			t.Errorf("order of %v", pair)
		}
	}
}
