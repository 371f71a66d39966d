package doctor

import (
	"strings"
	"testing"

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

// What a tenant wrote forges no finding, steers no terminal and is part of no command.
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
