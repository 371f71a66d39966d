// Package alerts tests what reads the metrics of the operator: the alerts, their runbook and the dashboard. promtool, the
// program of Prometheus itself, says what an expression means.
package alerts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/test/env"
)

const (
	cases   = "testdata/alerts.yaml"
	runbook = "docs/guide/alerts.md"
	pages   = "https://github.com/csi-operators/csi-operators/blob/main/"
)

// unitTests is the part of promtool's format that these tests look into.
type unitTests struct {
	Tests []struct {
		AlertRules []struct {
			Alert  string `json:"alertname"`
			Expect []any  `json:"exp_alerts"`
		} `json:"alert_rule_test"`
		Expressions []struct {
			Expr string `json:"expr"`
		} `json:"promql_expr_test"`
	} `json:"tests"`
}

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	pass(t, monitor[*monitoringv1.PrometheusRule](t).Spec, cases)
}

// pass checks rules, and runs promtool's unit tests of a file on them.
func pass(t *testing.T, spec monitoringv1.PrometheusRuleSpec, file string) {
	t.Helper()
	dir := t.TempDir()
	rules := writeRules(t, dir, spec)
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rules)
	text, err := os.ReadFile(file)
	env.Must(t, err)
	copied := filepath.Join(dir, filepath.Base(file))
	env.Must(t, os.WriteFile(copied, text, 0o600))
	promtool(t, "test", "rules", copied)
}

func TestEveryAlertIsTestedFiringAndSilent(t *testing.T) {
	text, err := os.ReadFile(cases)
	env.Must(t, err)
	var tests unitTests
	env.Must(t, yaml.Unmarshal(text, &tests))
	firing, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, rule := range test.AlertRules {
			if len(rule.Expect) > 0 {
				firing[rule.Alert] = true
			} else {
				silent[rule.Alert] = true
			}
		}
	}
	for _, rule := range alerts(t) {
		if !firing[rule.Alert] || !silent[rule.Alert] {
			t.Errorf("%s: %s has a firing case: %t, a silent one: %t; want both", rule.Alert, cases, firing[rule.Alert], silent[rule.Alert])
		}
		delete(firing, rule.Alert)
		delete(silent, rule.Alert)
	}
	// promtool is content with a silent alert that does not exist.
	for name := range silent {
		t.Errorf("%s has a case for %s, which is no alert", cases, name)
	}
}

func TestAlertsFollowTheConventionsOfOpenShift(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, runbook))
	env.Must(t, err)
	for _, rule := range alerts(t) {
		if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
			t.Errorf("%s: severity is %q, want critical, warning or info", rule.Alert, rule.Labels["severity"])
		}
		for _, name := range []string{"summary", "description"} {
			if !strings.HasSuffix(rule.Annotations[name], ".") {
				t.Errorf("%s: annotation %s is no sentence: %q", rule.Alert, name, rule.Annotations[name])
			}
		}
		if strings.Contains(rule.Annotations["summary"], "{{") {
			t.Errorf("%s: the summary holds a placeholder; a summary is a heading for all such alerts", rule.Alert)
		}
		// What is absent has no labels; all else is grouped by namespace.
		if rule.Labels["namespace"] == "" && !strings.Contains(rule.Expr.String(), "by (namespace") {
			t.Errorf("%s: the alert has no label namespace", rule.Alert)
		}
		if rule.For == nil {
			t.Errorf("%s: it fires at once; give the operator time to recover", rule.Alert)
		}
		anchor := pages + runbook + "#" + strings.ToLower(rule.Alert)
		if rule.Annotations["runbook_url"] != anchor {
			t.Errorf("%s: runbook_url is %q, want %q", rule.Alert, rule.Annotations["runbook_url"], anchor)
		}
		if !strings.Contains(string(text), "\n## "+rule.Alert+"\n") {
			t.Errorf("%s: %s has no section with this name", rule.Alert, runbook)
		}
	}
}

func TestRunbookHasTheSameSectionsForEveryAlert(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, runbook))
	env.Must(t, err)
	described := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		if strings.HasPrefix(name, "AWSEFS") {
			described[name] = body
		}
	}
	// TestServiceLevelsReadMetricsThatExistAndHaveARunbook checks this one.
	delete(described, serviceLevels().Alert)
	for _, rule := range alerts(t) {
		body := described[rule.Alert]
		delete(described, rule.Alert)
		for _, part := range []string{"**Means.**", "**Impact.**", "**Look.**", "\n```", "**Fix.**", "severity `" + rule.Labels["severity"] + "`"} {
			if !strings.Contains(body, part) {
				t.Errorf("section %s of %s lacks %q", rule.Alert, runbook, part)
			}
		}
	}
	for name := range described {
		t.Errorf("%s describes %s, which is no alert", runbook, name)
	}
}

func TestRulesReadMetricsThatExist(t *testing.T) {
	for _, rule := range alerts(t) {
		names := metricNames(rule.Expr.String())
		if len(names) == 0 {
			t.Errorf("%s reads no metric: %s", rule.Alert, rule.Expr.String())
		}
		for _, name := range names {
			if !slices.Contains(knownMetrics(), name) {
				t.Errorf("%s reads %s, which nobody exports", rule.Alert, name)
			}
		}
	}
}

// alerts are the rules of config/prometheus/rules.yaml.
func alerts(t *testing.T) []monitoringv1.Rule {
	t.Helper()
	var all []monitoringv1.Rule
	for _, group := range monitor[*monitoringv1.PrometheusRule](t).Spec.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

// writeRules writes groups as a file that Prometheus reads, and returns its path.
func writeRules(t *testing.T, dir string, spec monitoringv1.PrometheusRuleSpec) string {
	t.Helper()
	text, err := yaml.Marshal(spec)
	env.Must(t, err)
	path := filepath.Join(dir, "rules.yaml")
	env.Must(t, os.WriteFile(path, text, 0o600))
	return path
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	binary, err := env.Binary("promtool")
	env.Must(t, err)
	command := exec.CommandContext(t.Context(), binary, args...)
	// It ends before its garbage matters.
	command.Env = append(os.Environ(), "GOGC=off", "GOMEMLIMIT=1GiB", "GOMAXPROCS=1")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

// metricNames are the names of the metrics in an expression of PromQL: every word that is no label, function or keyword.
func metricNames(expression string) []string {
	for _, noise := range []string{
		`"[^"]*"`, `\{[^}]*\}`, `\[[^]]*\]`, `\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`,
		`\b(and|or|unless|bool|offset)\b`, `\b[0-9][0-9a-z.]*\b`, `\b\w+\s*\(`,
	} {
		expression = regexp.MustCompile(noise).ReplaceAllString(expression, " ")
	}
	names := regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`).FindAllString(expression, -1)
	slices.Sort(names)
	return slices.Compact(names)
}

func TestMetricNamesAreFound(t *testing.T) {
	for expression, want := range map[string]string{
		`up`:                                     "up",
		`max by (a, b) (m_x{c="d", e=~"f"}) > 0`: "m_x",
		`histogram_quantile(0.95, sum by (le) (rate(m_bucket[5m])))`: "m_bucket",
		`a{x="1"} - ignoring (state) b unless c offset 5m == 1e3`:    "a b c",
		`absent(m{x="sum(n)"})`: "m",
	} {
		if got := strings.Join(metricNames(expression), " "); got != want {
			t.Errorf("metrics of %s are %q, want %q", expression, got, want)
		}
	}
}
