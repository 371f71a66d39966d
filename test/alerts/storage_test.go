package alerts

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/test/env"
)

const storageCases = "testdata/storage.yaml"

// ofTheRelease are the rules that come with a release of the cluster.
func ofTheRelease(t *testing.T) monitoringv1.PrometheusRuleSpec {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "manifests", "0000_90_cluster-storage-operator_03_alerts.yaml"))
	env.Must(t, err)
	_, text, _ = bytes.Cut(text, []byte("---\n"))
	var rules monitoringv1.PrometheusRule
	env.Must(t, yaml.UnmarshalStrict(text, &rules))
	return rules.Spec
}

func TestAlertsOfTheReleaseFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	pass(t, ofTheRelease(t), storageCases)
}

func TestAlertsOfTheReleaseAreTestedAndSayWhatToDo(t *testing.T) {
	text, err := os.ReadFile(storageCases)
	env.Must(t, err)
	var tests unitTests
	env.Must(t, yaml.Unmarshal(text, &tests))
	var firing, recorded []string
	for _, test := range tests.Tests {
		for _, expression := range test.Expressions {
			recorded = append(recorded, expression.Expr)
		}
		for _, rule := range test.AlertRules {
			if len(rule.Expect) > 0 {
				firing = append(firing, rule.Alert)
			}
		}
	}
	root, err := env.Root()
	env.Must(t, err)
	const page = "docs/guide/storage-alerts.md"
	guide, err := os.ReadFile(filepath.Join(root, page))
	env.Must(t, err)
	count := 0
	for _, group := range ofTheRelease(t).Groups {
		for _, rule := range group.Rules {
			count++
			if rule.Record != "" {
				if !slices.Contains(recorded, rule.Record) {
					t.Errorf("%s: %s has no case with its value", rule.Record, storageCases)
				}
				continue
			}
			if !slices.Contains(firing, rule.Alert) {
				t.Errorf("%s: %s has no case in which it fires", rule.Alert, storageCases)
			}
			if rule.For == nil || rule.Labels["severity"] == "" {
				t.Errorf("%s: it fires at once, or has no severity", rule.Alert)
			}
			if rule.Annotations["runbook_url"] != pages+page+"#"+strings.ToLower(rule.Alert) || !strings.Contains(string(guide), "\n## "+rule.Alert+"\n") {
				t.Errorf("%s: %s has no section with this name, or runbook_url is another: %s", rule.Alert, page, rule.Annotations["runbook_url"])
			}
			_, section, _ := strings.Cut(string(guide), "\n## "+rule.Alert+"\n")
			section, _, _ = strings.Cut(section, "\n## ")
			for _, part := range []string{"**Means.**", "**Impact.**", "**Look.**", "**Fix.**", "severity `" + rule.Labels["severity"] + "`"} {
				if !strings.Contains(section, part) {
					t.Errorf("section %s of %s lacks %q", rule.Alert, page, part)
				}
			}
			for _, name := range []string{"summary", "description"} {
				if !strings.HasSuffix(rule.Annotations[name], ".") {
					t.Errorf("%s: annotation %s is no sentence: %q", rule.Alert, name, rule.Annotations[name])
				}
			}
		}
	}
	if count < 21 {
		t.Errorf("%d rules", count)
	}
}
