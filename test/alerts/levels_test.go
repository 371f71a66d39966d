package alerts

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/release/levels"
	"github.com/csi-operators/csi-operators/test/env"
)

func serviceLevels() levels.Set { return levels.EFS(awsefs.Name, kube.DefaultNamespace) }

func payloadLevels() levels.Set {
	var names []string
	for _, d := range all.Drivers() {
		if d.Payload != nil {
			names = append(names, d.Name)
		}
	}
	return levels.Payload(names, kube.DefaultNamespace)
}

// trouble says in which minutes a driver fails.
type trouble func(minute int) bool

// input makes the series of a level. Each text is a series and its values, minute by minute.
type input struct {
	driver  string
	minutes int
	fails   trouble
}

func (i input) series(name string, value func(minute int) float64) map[string]string {
	var values []string
	for minute := range i.minutes {
		values = append(values, fmt.Sprint(value(minute)))
	}
	return map[string]string{"series": name, "values": strings.Join(values, " ")}
}

// counter counts 60 events in each minute that is bad, or in each that is not.
func (i input) counter(name string, bad bool) map[string]string {
	count := 0.0
	return i.series(name, func(minute int) float64 {
		if i.fails(minute) == bad {
			count += 60
		}
		return count
	})
}

func (i input) gauge(name string, good, bad float64) map[string]string {
	return i.series(name, func(minute int) float64 {
		if i.fails(minute) {
			return bad
		}
		return good
	})
}

func (i input) calls(metric, method, seconds string) []map[string]string {
	labels := fmt.Sprintf(`driver_name=%q,method_name=%q,pod="a"`, i.driver, method)
	return []map[string]string{
		i.counter(fmt.Sprintf(`%s_count{%s,grpc_status_code="OK"}`, metric, labels), false),
		i.counter(fmt.Sprintf(`%s_bucket{%s,grpc_status_code="OK",le=%q}`, metric, labels, seconds), false),
		i.counter(fmt.Sprintf(`%s_count{%s,grpc_status_code="Internal"}`, metric, labels), true),
		// A wrong StorageClass is no fault of the driver.
		i.series(fmt.Sprintf(`%s_count{%s,grpc_status_code="InvalidArgument"}`, metric, labels), func(minute int) float64 { return 600 * float64(minute) }),
	}
}

func (i input) of(set levels.Set, sli string) []map[string]string {
	seconds, is := "120.0", fmt.Sprintf("driver=%q", i.driver)
	if i.driver == awsefs.Name {
		seconds = "25"
	}
	const total = 20
	pods := func(state string, bad float64) map[string]string {
		return i.gauge(fmt.Sprintf(`csi_operator_node_pods{%s,state=%q,pod="a"}`, is, state), total, bad)
	}
	switch sli {
	case "provisioning":
		return i.calls("csi_sidecar_operations_seconds", "/csi.v1.Controller/CreateVolume", seconds)
	case "mounting":
		return i.calls("csi_operations_seconds", "/csi.v1.Node/NodePublishVolume", seconds)
	case "ready":
		always := input{driver: i.driver, minutes: i.minutes, fails: func(int) bool { return false }}
		return []map[string]string{
			always.counter("csi_operator_shared_volume_ready_seconds_count", false),
			i.counter(`csi_operator_shared_volume_ready_seconds_bucket{le="30"}`, false),
		}
	case "nodes":
		return []map[string]string{pods("desired", total), pods("available", 0)}
	case "repair":
		return []map[string]string{i.gauge(`csi_operator_condition{`+is+`,type="Degraded"}`, 0, 1)}
	case "takeover":
		return []map[string]string{i.gauge(`csi_operator_migration_stalled{`+is+`}`, 0, 1)}
	}
	if set.Alert != serviceLevels().Alert {
		return []map[string]string{pods("desired", total), pods("updated", total-1)}
	}
	return []map[string]string{
		i.gauge(`csi_operator_clustercsidriver_exists{`+is+`}`, 1, 1),
		i.gauge(`csi_operator_node_rollout_since_timestamp_seconds{`+is+`}`, 0, 0),
		i.gauge(`csi_operator_node_rollout_limit_seconds{`+is+`}`, 60, 60),
		i.gauge(`csi_operator_node_rollout_waiting_nodes{`+is+`,state="in_use"}`, 0, 1),
	}
}

// expect is a check that an alert fires, or does not.
func expect(set levels.Set, sli, burn string, minute int, fires bool) map[string]any {
	expression := fmt.Sprintf("count(ALERTS{alertname=%q,alertstate=\"firing\",sli=%q,burn=%q})", set.Alert, sli, burn)
	samples := []any{}
	if fires {
		samples = append(samples, map[string]any{"labels": "{}", "value": 1})
	}
	return map[string]any{"expr": expression, "eval_time": fmt.Sprintf("%dm", minute), "exp_samples": samples}
}

// burns are the cases of one level: a short burn, which is fast and ends, and a slow one.
func burns(set levels.Set, level levels.Level, driver string) []any {
	budget := (100 - level.Objective) / 100
	const begin = 60
	// In this time, the fast alert fires. A node pod is outdated for 15 minutes before that is bad.
	lasts := int(math.Ceil(14.4*budget*60)) + 10
	delay := 0
	if level.SLI == "rollout" && set.Alert != serviceLevels().Alert {
		delay = 15
	}
	end := begin + delay + lasts
	test := func(name string, minutes int, fails trouble, checks ...any) map[string]any {
		return map[string]any{
			"name": name + " burn of " + level.SLI, "interval": "1m",
			"input_series": input{driver: driver, minutes: minutes, fails: fails}.of(set, level.SLI), "promql_expr_test": checks,
		}
	}
	cases := []any{test("fast and short", end+26, func(minute int) bool { return minute >= begin && minute < end },
		expect(set, level.SLI, "fast", begin, false), expect(set, level.SLI, "fast", end, true), expect(set, level.SLI, "fast", end+25, false))}
	if delay > 0 {
		// Outdated node pods burn the budget fast in each roll-out that stops.
		return append(cases, test("slow", 181, func(minute int) bool { return minute%150 < 30 }, expect(set, level.SLI, "slow", 180, true)))
	}
	// A burn that lasts burns as fast in two hours as in the six hours of the window.
	share := int(math.Round(10 * budget * 20))
	return append(cases, test("slow", 121, func(minute int) bool { return minute%20 < share },
		expect(set, level.SLI, "slow", 120, true), expect(set, level.SLI, "fast", 120, false)))
}

// only is a set with one of its levels, so that a test evaluates few rules.
func only(set levels.Set, sli string) levels.Set {
	set.Levels = slices.DeleteFunc(slices.Clone(set.Levels), func(level levels.Level) bool { return level.SLI != sli })
	return set
}

// promtoolPasses runs cases against the rules of a set.
func promtoolPasses(t *testing.T, set levels.Set, cases ...any) {
	t.Helper()
	dir := t.TempDir()
	writeRules(t, dir, set.Rules().Spec)
	text, err := yaml.Marshal(map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m", "tests": cases})
	env.Must(t, err)
	file := filepath.Join(dir, "tests.yaml")
	env.Must(t, os.WriteFile(file, text, 0o600))
	promtool(t, "test", "rules", file)
}

// sets are both sets, each with one of its drivers.
func sets() map[string]levels.Set {
	return map[string]levels.Set{awsefs.Name: serviceLevels(), "ebs.csi.aws.com": payloadLevels()}
}

func TestErrorBudgetsBurn(t *testing.T) {
	for driver, set := range sets() {
		for _, level := range set.Levels {
			t.Run(driver+" "+level.SLI, func(t *testing.T) { promtoolPasses(t, only(set, level.SLI), burns(set, level, driver)...) })
		}
	}
}

func TestRulesOfServiceLevelsAreSilentWithoutErrors(t *testing.T) {
	for driver, set := range sets() {
		promtool(t, "check", "rules", "--lint=all", "--lint-fatal", writeRules(t, t.TempDir(), set.Rules().Spec))
		healthy := input{driver: driver, minutes: 91, fails: func(int) bool { return false }}
		var series []map[string]string
		seen := map[string]bool{}
		for _, level := range set.Levels {
			for _, one := range healthy.of(set, level.SLI) {
				if !seen[one["series"]] {
					seen[one["series"]] = true
					series = append(series, one)
				}
			}
		}
		promtoolPasses(t, set, map[string]any{"interval": "1m", "input_series": series, "promql_expr_test": []any{
			map[string]any{"expr": "count(ALERTS)", "eval_time": "90m", "exp_samples": []any{}},
			map[string]any{
				"expr": fmt.Sprintf("count(%s1h == 0)", levels.Burn), "eval_time": "90m",
				"exp_samples": []any{map[string]any{"labels": "{}", "value": len(set.Levels)}},
			},
		}})
	}
}

// Nodes that restart for an update have no available node pod, either.
func TestRestartingNodesBurnNoBudget(t *testing.T) {
	for driver, set := range sets() {
		restarting, is := input{driver: driver, minutes: 151, fails: func(minute int) bool { return minute > 60 }}, fmt.Sprintf("driver=%q", driver)
		promtoolPasses(t, only(set, "nodes"), map[string]any{
			"interval": "1m",
			"input_series": []any{
				restarting.gauge(`csi_operator_node_pods{`+is+`,state="desired"}`, 6, 6),
				restarting.gauge(`csi_operator_node_pods{`+is+`,state="available"}`, 6, 5),
				restarting.gauge(`kube_node_status_condition{condition="Ready",status="true",node="a"}`, 1, 0),
			},
			"promql_expr_test": []any{expect(set, "nodes", "fast", 150, false), expect(set, "nodes", "slow", 150, false)},
		})
	}
}

// All levels have the same windows, so one level is enough.
func TestALastingBurnFires(t *testing.T) {
	set, minutes := serviceLevels(), 181
	series := input{driver: awsefs.Name, minutes: minutes, fails: func(minute int) bool { return minute%50 == 0 }}.of(set, "repair")
	promtoolPasses(t, only(set, "repair"), map[string]any{
		"interval": "1m", "input_series": series, "promql_expr_test": []any{
			expect(set, "repair", "lasting", 180, true), expect(set, "repair", "slow", 180, false), expect(set, "repair", "fast", 180, false),
		},
	})
}

func TestServiceLevelsReadMetricsThatExistAndHaveARunbook(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "guide", "service-levels.md"))
	env.Must(t, err)
	for _, set := range []levels.Set{serviceLevels(), payloadLevels()} {
		recorded := []string{levels.Total, levels.Bad, levels.Budget}
		for _, rule := range set.Rules().Spec.Groups[0].Rules {
			for _, name := range metricNames(rule.Expr.String()) {
				if !slices.Contains(knownMetrics(), name) && !slices.Contains(recorded, name) {
					t.Errorf("%s%s reads %s, which no program exports", rule.Record, rule.Alert, name)
				}
			}
			recorded = append(recorded, rule.Record)
		}
		runbook, err := os.ReadFile(filepath.Join(root, "docs", "guide", set.Runbook))
		env.Must(t, err)
		_, section, _ := strings.Cut(string(runbook), "\n## "+set.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, part := range []string{"**Means.**", "**Impact.**", "**Look.**", "**Fix.**"} {
			if !strings.Contains(section, part) {
				t.Errorf("section %s of %s lacks %q", set.Alert, set.Runbook, part)
			}
		}
		for _, level := range set.Levels {
			if !strings.Contains(section, "`"+level.SLI+"`") {
				t.Errorf("section %s of %s lacks level %s", set.Alert, set.Runbook, level.SLI)
			}
			if row := fmt.Sprintf("| `%s` | %v%% |", level.SLI, level.Objective); !strings.Contains(string(page), row) {
				t.Errorf("docs/guide/service-levels.md lacks the row %q", row)
			}
		}
	}
}

// The guide has this rule for administrators to copy.
func TestAClaimThatHoldsMoreThanItAskedForIsReported(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "guide", "use-a-volume.md"))
	env.Must(t, err)
	_, text, _ := strings.Cut(string(page), "```yaml\napiVersion: monitoring.coreos.com/v1\n")
	text, _, _ = strings.Cut(text, "```")
	var rule monitoringv1.PrometheusRule
	env.Must(t, yaml.UnmarshalStrict([]byte("apiVersion: monitoring.coreos.com/v1\n"+text), &rule))
	dir := t.TempDir()
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", writeRules(t, dir, rule.Spec))
	claim := func(name string, used int) []map[string]string {
		is := fmt.Sprintf(`namespace="team",persistentvolumeclaim=%q`, name)
		return []map[string]string{
			{"series": `kubelet_volume_stats_used_bytes{` + is + `,node="a"}`, "values": fmt.Sprintf("%dx60", used)},
			{"series": `kube_persistentvolumeclaim_resource_requests_storage_bytes{` + is + `}`, "values": "100x60"},
			{"series": `kube_persistentvolumeclaim_info{` + is + `,storageclass="efs"}`, "values": "1x60"},
		}
	}
	tests, err := yaml.Marshal(map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m", "tests": []any{map[string]any{
		"interval": "1m", "input_series": append(claim("small", 100), claim("large", 101)...), "promql_expr_test": []any{map[string]any{
			"expr": `count by (persistentvolumeclaim) (ALERTS{alertstate="firing"})`, "eval_time": "50m",
			"exp_samples": []any{map[string]any{"labels": `{persistentvolumeclaim="large"}`, "value": 1}},
		}},
	}}})
	env.Must(t, err)
	file := filepath.Join(dir, "tests.yaml")
	env.Must(t, os.WriteFile(file, tests, 0o600))
	promtool(t, "test", "rules", file)
}

func TestDashboardsOfServiceLevelsReadWhatIsRecorded(t *testing.T) {
	configMap, err := levels.Console()
	env.Must(t, err)
	if configMap.Namespace != "openshift-config-managed" || configMap.Labels["console.openshift.io/dashboard"] != "true" || len(configMap.Data) != 1 {
		t.Errorf("the console does not look at namespace %q, labels %v", configMap.Namespace, configMap.Labels)
	}
	var shown board
	for _, text := range configMap.Data {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		env.Must(t, decoder.Decode(&shown))
	}
	var recorded []string
	for _, rule := range payloadLevels().Rules().Spec.Groups[0].Rules {
		recorded = append(recorded, rule.Record)
	}
	for _, panel := range shown.Rows[0].Panels {
		checkTargets(t, panel)
		for _, name := range metricNames(panel.Targets[0].Expr) {
			if !slices.Contains(recorded, name) {
				t.Errorf("%s reads %s, which no rule records", panel.Title, name)
			}
		}
	}
	text, err := levels.Grafana()
	env.Must(t, err)
	for _, panel := range shown.Rows[0].Panels {
		if !strings.Contains(string(text), panel.Targets[0].Expr) {
			t.Errorf("Grafana's dashboard lacks %s", panel.Title)
		}
	}
}
