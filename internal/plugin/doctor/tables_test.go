package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
)

// row is a finding on one line.
func row(one Finding) string {
	return fmt.Sprintf("%s | %s | %s | %s | %s | %s", one.Severity, one.Cause, one.Object, one.Do, one.Command, one.Page)
}

func TestEveryConditionHasASentence(t *testing.T) {
	var lines []string
	for _, text := range []string{
		"ConfigObservationDegraded=True Error", "ConfigObservationDegraded=True NotFollowed", "ManagementStateDegraded=True Unknown",
		prefix + "CredentialsRequestControllerAvailable=False SecretMissing", prefix + "DriverControlPlaneStaticResourcesControllerDegraded=True Error",
		prefix + "DriverControllerServiceControllerAvailable=False NoPod", prefix + "DriverControllerServiceControllerProgressing=True Deploying",
		prefix + "DriverNodeServiceControllerAvailable=False NoPod", prefix + "DriverNodeServiceControllerDegraded=True CanaryFailed",
		prefix + "DriverNodeServiceControllerDegraded=True ImagePullFailed", prefix + "DriverNodeServiceControllerProgressing=True PullingImages",
		prefix + "DriverNodeServiceControllerDegraded=True RolloutStuck", prefix + "DriverNodeServiceControllerDegraded=True RemovalStuck",
		prefix + "DriverNodeServiceControllerProgressing=True RolloutPaused", prefix + "DriverNodeServiceControllerProgressing=True NodesInUse",
		prefix + "DriverNodeServiceControllerProgressing=True NodesDown", prefix + "DriverNodeServiceControllerProgressing=True Waiting",
		prefix + "DriverNodeServiceControllerProgressing=True TakingOver", prefix + "DriverNodeServiceControllerProgressing=True Removing",
		prefix + "CredentialsRequestControllerAvailable=True ActionRequired", prefix + "DriverNodeServiceControllerDegraded=True ActionRequired",
		prefix + "CredentialsRequestControllerProgressing=True CredentialsNotProvisionedYet",
		"Available=False Something", "Degraded=True Something", "Available=Unknown Something", "Progressing=True Something",
	} {
		kind, rest, _ := strings.Cut(text, "=")
		status, reason, _ := strings.Cut(rest, " ")
		s := open(t)
		s.says(condition(kind, status, reason, "message"))
		found := "nothing"
		r := s.facts()
		if all := append(conditions(r), management(r)...); len(all) > 0 {
			found = row(all[0])
		}
		lines = append(lines, text+"\n  "+found)
	}
	golden.CompareText(t, "table-conditions.txt", strings.Join(lines, "\n")+"\n")
}

// facts returns the facts of a scene.
func (s *scene) facts() *facts {
	s.t.Helper()
	f := &facts{}
	for _, object := range s.Objects {
		if cr, is := object.(*operatorv1.ClusterCSIDriver); is {
			f.Drivers = append(f.Drivers, survey.Driver{Name: cr.Name, CR: cr, Profile: &survey.Profile{Prefix: prefix, Operator: operator}})
		}
	}
	return f
}

func TestEverySymptomHasASentence(t *testing.T) {
	var lines []string
	for _, symptom := range symptoms() {
		if symptom.over != nil {
			// These depend on the claim; see unseen.
			continue
		}
		for _, word := range symptom.words {
			s := open(t)
			s.stuck("a", "The driver says: "+strings.ToUpper(word)+" at the end")
			text, _ := s.ask("table", "pod", "web")
			lines = append(lines, word, indent(text))
		}
	}
	golden.CompareText(t, "table-symptoms.txt", strings.Join(lines, "\n"))
}

// Only a timeout of an EFS mount points to the network.
func TestWhatIsLateIsBlamedOnWhoIsLate(t *testing.T) {
	fill := strings.NewReplacer()
	for _, tc := range [][3]string{
		{"efs.csi.aws.com", "FailedMount", "Node NODE gets no answer from the mount target of file system SYSTEM."},
		{"efs.csi.aws.com", "ProvisioningFailed", "Driver DRIVER did not finish a request in time. Kubernetes tries again."},
		{"ebs.csi.aws.com", "FailedMount", "Driver DRIVER did not finish a request in time. Kubernetes tries again."},
		{"csi.vsphere.vmware.com", "FailedAttachVolume", "Driver DRIVER did not finish a request in time. Kubernetes tries again."},
	} {
		said := ""
		for _, one := range symptomsOf(tc[0]) {
			if said == "" && one.matches(tc[1], "rpc error: code = deadlineexceeded desc = context deadline exceeded", fill) {
				said = one.cause
			}
		}
		if said != tc[2] {
			t.Errorf("%s of %s: %q, want %q", tc[1], tc[0], said, tc[2])
		}
	}
}

func indent(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "ERROR") || strings.HasPrefix(line, "UNKNOWN") || strings.HasPrefix(line, "  do") || strings.HasPrefix(line, "  page") ||
			strings.HasPrefix(line, "     ") {
			kept = append(kept, "  "+strings.TrimSpace(line))
		}
	}
	return strings.Join(kept, "\n")
}

func TestEveryProblemInAWSHasASentence(t *testing.T) {
	var lines []string
	for _, one := range problems() {
		s := open(t)
		s.says(condition(prefix+one.kind, "True", one.kind, "file system "+system+" lacks "+point+" in us-east-1c"))
		text, _ := s.ask("table")
		lines = append(lines, one.kind, text)
	}
	golden.CompareText(t, "table-aws.txt", strings.Join(lines, "\n"))
}

func TestEveryReasonOfASharedVolumeHasASentence(t *testing.T) {
	reasons := []string{
		"InvalidIDs", "NameTaken", "VolumeTaken", "QuotaExceeded", "ClaimDeleting", "VolumeDeleting", "ClaimChanged", "VolumeChanged", "Forbidden", "Refused",
		"WaitingForFormer", "Deleting", "NotAllowed", "Binding", "Rebuilding", "Creating", "WaitingForFileSystem", "SomethingNew",
	}
	var lines []string
	for _, reason := range reasons {
		s := open(t)
		s.share(v1alpha1.Failed, is("Ready", "False", reason, "message"))
		text, _ := s.ask("table", "sv", "sv1")
		lines = append(lines, reason, indent(text))
	}
	for _, reason := range []string{"FileSystemNotFound", "AccessPointNotFound", "MountTargetMissing", "NoNodeInZone", "SomethingNew"} {
		s := open(t)
		s.share(v1alpha1.Ready, is("Ready", "True", "Bound", ""), is("Mountable", "False", reason, "message"))
		text, _ := s.ask("table", "sv", "sv1")
		lines = append(lines, "Mountable "+reason, indent(text))
	}
	s := open(t)
	s.share(v1alpha1.Ready, is("Ready", "True", "Bound", ""), is("DriverInstalled", "False", "NoCSIDriver", "message"), is("Allowed", "False", "NotListed", "m"))
	text, _ := s.ask("table", "sv", "sv1")
	golden.CompareText(t, "table-shared.txt", strings.Join(append(lines, "bound, then driver and list are gone", indent(text)), "\n"))
}

func TestFlawsOfClasses(t *testing.T) {
	good := func(changes ...string) map[string]string {
		parameters := map[string]string{"provisioningMode": "efs-ap", "fileSystemId": system, "directoryPerms": "700"}
		for _, change := range changes {
			name, value, set := strings.Cut(change, "=")
			if !set {
				delete(parameters, name)
				continue
			}
			parameters[name] = value
		}
		return parameters
	}
	for _, tc := range []struct {
		parameters map[string]string
		want       []string
	}{
		{nil, nil},
		{good(), nil},
		{good("uid=0", "gid=1000", "gidRangeStart=1", "gidRangeEnd=2", "basePath=/a", "reuseAccessPoint=true", "csi.storage.k8s.io/provisioner-secret-name=x"), nil},
		{good("fileSystemId", "fileSystemIdConfigRef=a/b/c"), nil},
		{good("provisioningMode"), []string{"parameter provisioningMode is missing: set it to efs-ap"}},
		{good("provisioningMode=efs"), []string{`parameter provisioningMode is "efs": must be efs-ap`}},
		{good("fileSystemId"), []string{"parameter fileSystemId is missing: set it to the ID of a file system"}},
		{good("fileSystemId=fsap-1"), []string{`parameter fileSystemId is "fsap-1", which is not the ID of a file system`}},
		{good("directoryPerms"), []string{`parameter directoryPerms is missing: set it to octal permissions, such as "700"`}},
		{good("directoryPerms=rwx"), []string{`parameter directoryPerms is "rwx": must be octal permissions, such as "700"`}},
		{good("uid=-1"), []string{`parameter uid is "-1": must be a whole number of at least 0`}},
		{good("gidRangeStart=0", "gidRangeEnd=5"), []string{`parameter gidRangeStart is "0": must be a whole number of at least 1`}},
		{good("gidRangeStart=5"), []string{"only one of the parameters gidRangeStart and gidRangeEnd is set: set both or none"}},
		{good("gidRangeStart=5", "gidRangeEnd=5"), []string{"parameter gidRangeEnd is not greater than gidRangeStart"}},
		{good("enforceZoneAffinity=yes"), []string{`parameter enforceZoneAffinity is "yes": must be "true" or "false"`}},
		{good("enforceZoneAffinity=True", "ensureUniqueDirectory=0", "uid=+5"), nil},
		{good("provisioningMode=efs-dir"), []string{`parameter provisioningMode is "efs-dir": must be efs-ap`}},
		{good("enableTagging=true"), nil},
		{good("enableTagging=false"), []string{
			`parameter enableTagging is "false": remove it: the driver accepts only "true", because the cluster has tags for access points`,
		}},
		{good("basePath=/a/b/c/d"), nil},
		{good("basePath=/a/b/c/d/e"), []string{`parameter basePath is "/a/b/c/d/e": a path has at most 100 characters and 4 parent directories`}},
		{good("crossaccount=true"), []string{"the driver ignores the unknown parameter crossaccount"}},
		{good("filesystemid=x"), []string{"the driver ignores the unknown parameter filesystemid: the correct name is fileSystemId"}},
		{good("size=1"), []string{"the driver ignores the unknown parameter size"}},
	} {
		var got []string
		for _, one := range flaws(tc.parameters) {
			got = append(got, one.text)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%v: %q, want %q", tc.parameters, got, tc.want)
		}
	}
}

func TestOnlyTheLastLinesThatMatterAreShown(t *testing.T) {
	var log strings.Builder
	for i := range 9 {
		fmt.Fprintf(&log, "E%d failed to mount fs-1\nI%d mounted fs-1\nE%d failed to mount fs-2\n", i, i, i)
	}
	got := strings.Join(failures(log.String(), []string{"fs-1", ""}), "|")
	if got != "E4 failed to mount fs-1|E5 failed to mount fs-1|E6 failed to mount fs-1|E7 failed to mount fs-1|E8 failed to mount fs-1" {
		t.Error(got)
	}
}

func TestCausesAreFollowedToTheRoot(t *testing.T) {
	root := Finding{Severity: Error, topic: "a/x", level: 1, effects: []string{"b/*/c"}}
	middle := Finding{Severity: Error, topic: "b/1/c/d", level: 2, effects: []string{"e"}}
	leaf := Finding{Severity: Error, topic: "e/1", level: 3}
	for name, tc := range map[string]struct {
		all  []Finding
		want string
	}{
		"a chain":                     {[]Finding{leaf, middle, root}, "a/x"},
		"without its root":            {[]Finding{leaf, middle}, "b/1/c/d"},
		"a warning explains nothing":  {[]Finding{leaf, {Severity: Warning, topic: "w", level: 1, effects: []string{"e"}}}, "e/1 w"},
		"what is later does not":      {[]Finding{root, {Severity: Error, topic: "z", level: 5, effects: []string{"a"}}}, "a/x z"},
		"one topic is one cause":      {[]Finding{{Severity: Error, topic: "t", level: 9}, {Severity: Error, topic: "t", level: 4, Cause: "first"}}, "t"},
		"general without consequence": {[]Finding{{Severity: Error, topic: "g", general: true, effects: []string{"nothing"}}, leaf}, "e/1"},
		"general, two steps away": {[]Finding{
			{Severity: Error, topic: "g", general: true, effects: []string{"h"}}, {Severity: Error, topic: "h", level: 1, general: true, effects: []string{"e"}}, leaf,
		}, "g"},
	} {
		var got []string
		for _, one := range roots(relevant(tc.all)) {
			got = append(got, one.topic)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
