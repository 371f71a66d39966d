package doctor

import (
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/plugin"
)

// ofOLM reads objects of OLM from YAML, without their API versions.
func ofOLM(t *testing.T, text string) []client.Object {
	t.Helper()
	var all []client.Object
	for document := range strings.SplitSeq(text, "---\n") {
		one := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &one.Object); err != nil {
			t.Fatal(err)
		}
		one.SetAPIVersion("operators.coreos.com/v1alpha1")
		if one.GetKind() == "OperatorGroup" {
			one.SetAPIVersion("operators.coreos.com/v1")
		}
		all = append(all, one)
	}
	return all
}

const (
	catalogYAML = `
kind: CatalogSource
metadata: {namespace: openshift-marketplace, name: csi-operators}
status: {connectionState: {lastObservedState: READY}}
`
	groupYAML = `
kind: OperatorGroup
metadata: {namespace: openshift-cluster-csi-drivers, name: one}
`
	planYAML = `
kind: InstallPlan
metadata: {namespace: openshift-cluster-csi-drivers, name: install-1}
spec: {approved: true, clusterServiceVersionNames: [v2]}
status: {phase: Complete}
`
	subscriptionYAML = `
kind: Subscription
metadata: {namespace: openshift-cluster-csi-drivers, name: efs}
spec: {name: aws-efs-csi-driver-operator, source: csi-operators, sourceNamespace: openshift-marketplace}
status: {currentCSV: v2, installedCSV: v1, installPlanRef: {name: install-1}, conditions: [{type: CatalogSourcesUnhealthy, status: "False"}]}
`
	versionYAML = `
kind: ClusterServiceVersion
metadata: {namespace: openshift-cluster-csi-drivers, name: v2}
status: {phase: Succeeded, reason: InstallSucceeded, message: done}
`
)

// faultsOfOLM maps causes to what breaks the objects above, as pairs of old and new text. A pair with an empty new text drops the object.
func faultsOfOLM() map[string][]string {
	failed := func(phase, reason string) []string {
		return []string{"phase: Succeeded, reason: InstallSucceeded, message: done", "phase: " + phase + ", reason: " + reason + ", message: some words"}
	}
	return map[string][]string{
		"names CatalogSource openshift-marketplace/csi-operators, which does not exist":        {"name: csi-operators}", "name: other}"},
		"OLM can't read CatalogSource openshift-marketplace/csi-operators":                     {"READY", "TRANSIENT_FAILURE"},
		"OLM finds no version of the operator":                                                 {"CatalogSourcesUnhealthy, status: \"False\"", `ResolutionFailed, status: "True", message: some words`},
		"OLM can't unpack the bundle":                                                          {"CatalogSourcesUnhealthy, status: \"False\"", `BundleUnpackFailed, status: "True", message: some words`},
		"namespace openshift-cluster-csi-drivers has no OperatorGroup":                         {"openshift-cluster-csi-drivers, name: one", "another, name: one"},
		"OLM waits for your approval":                                                          {"approved: true", "approved: false", "Complete", "RequiresApproval"},
		"its InstallPlan has failed":                                                           {"phase: Complete", `phase: Failed, conditions: [{type: Installed, status: "False", message: some words}]`},
		"was deleted, and OLM does not install it again":                                       {"name: v2", "name: v0"},
		"the installed version says that it is not upgradeable":                                failed("Pending", "OperatorConditionNotUpgradeable"),
		"an operator in another namespace owns the same API":                                   failed("Failed", "InterOperatorGroupOwnerConflict"),
		"the OperatorGroup selects some namespaces, but the operator must serve all":           failed("Failed", "UnsupportedOperatorGroup"),
		"its ClusterServiceVersion has failed":                                                 failed("Failed", "InstallComponentFailed"),
		"the cluster lacks an object that the operator requires":                               failed("Pending", "RequirementsNotMet"),
		"namespace openshift-cluster-csi-drivers has 2 OperatorGroups, but may have only one.": {groupYAML, groupYAML + "---" + strings.ReplaceAll(groupYAML, "one", "two")},
		"2 Subscriptions install operators of driver efs.csi.aws.com": {
			subscriptionYAML, subscriptionYAML + "---" + strings.NewReplacer("name: efs}", "name: other}", "aws-efs-csi-driver-operator", "aws-efs-operator").Replace(subscriptionYAML),
		},
	}
}

func TestOLMSaysWhyThereIsNoOperator(t *testing.T) {
	for cause, fault := range faultsOfOLM() {
		for subject, args := range map[string][]string{"the cluster": nil, "a PVC": {"pvc", "new"}} {
			t.Run(cause+" of "+subject, func(t *testing.T) {
				s := open(t)
				drop[*appsv1.Deployment](s, operator)
				drop[*operatorv1.ClusterCSIDriver](s)
				waiting := claimOf("new", "efs", "")
				waiting.Status.Phase = corev1.ClaimPending
				text := strings.Join([]string{catalogYAML, groupYAML, planYAML, subscriptionYAML, versionYAML}, "---")
				s.add(waiting)
				s.add(ofOLM(t, strings.NewReplacer(fault...).Replace(text))...)
				found, code := s.ask("table", args...)
				if code != 3 || !strings.Contains(found, cause) || strings.Contains(found, "has no operator") || strings.Count(found, "ERROR ") != 1 {
					t.Errorf("exit %d:\n%s", code, found)
				}
				if strings.Contains(strings.Join(fault, " "), "some words") && !strings.Contains(found, "some words") {
					t.Errorf("the words of OLM are missing:\n%s", found)
				}
			})
		}
	}
}

// While an operator runs, a problem of OLM only prevents updates.
func TestAnOperatorThatRunsMakesAProblemOfOLMAWarning(t *testing.T) {
	for cause, fault := range faultsOfOLM() {
		s := open(t)
		text := strings.Join([]string{catalogYAML, groupYAML, planYAML, subscriptionYAML, versionYAML}, "---")
		s.add(ofOLM(t, strings.NewReplacer(fault...).Replace(text))...)
		if found, code := s.ask("table"); code != 3 || !strings.Contains(found, cause) || !strings.Contains(found, "WARNING") || strings.Contains(found, "ERROR ") {
			t.Errorf("%s: exit %d:\n%s", cause, code, found)
		}
		if found, code := s.ask("table", "pod", "web"); code != 0 {
			t.Errorf("%s concerns a pod that runs: %s", cause, found)
		}
	}
}

func TestAHealthyInstallationOfOLMIsSilent(t *testing.T) {
	s := open(t)
	s.add(ofOLM(t, strings.Join([]string{catalogYAML, groupYAML, planYAML, subscriptionYAML, versionYAML}, "---"))...)
	if found, code := s.ask("table"); code != 0 {
		t.Error(found)
	}
	s = open(t)
	s.add(ofOLM(t, strings.ReplaceAll(subscriptionYAML, "name: aws-efs-csi-driver-operator", "name: other"))...)
	if found, code := s.ask("table"); code != 0 || slices.ContainsFunc(s.Reads, func(read string) bool { return strings.Contains(read, "InstallPlan") }) {
		t.Errorf("%s\n%q", found, s.Reads)
	}
}

// One namespace can't be read. "No OperatorGroup" would be a guess about it, whichever namespace is read first.
func TestWhatIsUnknownOfOneNamespaceIsUnknownOfAll(t *testing.T) {
	present, unknown := list[object]{Answer: plugin.Present}, list[object]{Answer: plugin.Unknown}
	for _, parts := range [][]list[object]{{unknown, present}, {present, unknown}} {
		all := list[object]{Answer: plugin.Present}
		for _, part := range parts {
			join(&all, part)
		}
		if all.Answer != plugin.Unknown {
			t.Errorf("%v are %v together", parts, all.Answer)
		}
	}
	s := open(t)
	second := strings.NewReplacer("openshift-cluster-csi-drivers", "another").Replace(subscriptionYAML)
	s.add(ofOLM(t, strings.Join([]string{catalogYAML, planYAML, subscriptionYAML, second, versionYAML}, "---"))...)
	if found, _ := s.ask("table"); !strings.Contains(found, "namespace another has no OperatorGroup") {
		t.Errorf("two namespaces without an OperatorGroup:\n%s", found)
	}
}
