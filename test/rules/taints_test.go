package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/test/env"
)

// Administrators copy the keys from the guide, and a policy with another key would refuse the removal.
func TestTheGuideAndThePoliciesHaveTheTaintOfEachDriver(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		env.Must(t, err)
		return string(text)
	}
	guide, limits := read("docs/guide/scheduling.md"), read("config/limits/nodes.yaml")
	release := read("manifests/0000_50_cluster-storage-operator_08_limits-policy.yaml")
	// YAML breaks long lines, and doubles quotes.
	release = strings.Join(strings.Fields(strings.ReplaceAll(release, "''", "'")), " ")
	for _, d := range all.Drivers() {
		if d.StartupTaint == "" {
			continue
		}
		if !strings.Contains(guide, "`"+d.StartupTaint+"` |\n") {
			t.Errorf("the table of docs/guide/scheduling.md lacks the taint %s of %s", d.StartupTaint, d.Name)
		}
		policy, quoted := release, "'"+d.Operator+" "+d.StartupTaint+"'"
		if d.Name == awsefs.Name {
			policy, quoted = limits, "'"+d.StartupTaint+"'"
		}
		if !strings.Contains(policy, quoted) {
			t.Errorf("no policy lets the operator of %s remove the taint %s", d.Name, d.StartupTaint)
		}
	}
}
