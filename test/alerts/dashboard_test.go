package alerts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/test/env"
)

const dashboardFile = "internal/driver/awsefs/assets/metrics/dashboard.yaml"

// board is what OpenShift's console reads of a dashboard, and all that it reads.
type board struct {
	Title      string         `json:"title"`
	Rows       []row          `json:"rows"`
	Templating map[string]any `json:"templating"`
	// These are for Grafana.
	Schema  int               `json:"schemaVersion"`
	UID     string            `json:"uid"`
	Time    map[string]string `json:"time"`
	Refresh string            `json:"refresh"`
	Tags    []string          `json:"tags"`
}

type row struct {
	Title     string  `json:"title"`
	ShowTitle bool    `json:"showTitle"`
	Collapse  bool    `json:"collapse"`
	Panels    []panel `json:"panels"`
}

type panel struct {
	ID         int              `json:"id"`
	Type       string           `json:"type"`
	Title      string           `json:"title"`
	Datasource string           `json:"datasource"`
	Span       int              `json:"span"`
	Targets    []target         `json:"targets"`
	Legend     map[string]bool  `json:"legend"`
	Yaxes      []map[string]any `json:"yaxes"`
	Format     string           `json:"format"`
	Decimals   *int             `json:"decimals"`
	Prefix     string           `json:"prefix"`
	Postfix    string           `json:"postfix"`
	ValueMaps  []valueMap       `json:"valueMaps"`
	Styles     []style          `json:"styles"`
	Transform  string           `json:"transform"`
}

type target struct {
	Expr    string `json:"expr"`
	RefID   string `json:"refId"`
	Format  string `json:"format"`
	Legend  string `json:"legendFormat"`
	Instant bool   `json:"instant"`
}

type valueMap struct {
	Op    string `json:"op"`
	Value string `json:"value"`
	Text  string `json:"text"`
}

type style struct {
	Alias    string `json:"alias"`
	Pattern  string `json:"pattern"`
	Type     string `json:"type"`
	Decimals int    `json:"decimals"`
	Unit     string `json:"unit"`
}

// dashboard reads the dashboard; a misspelt field is an error.
func dashboard(t *testing.T) (corev1.ConfigMap, board) {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, dashboardFile))
	env.Must(t, err)
	if strings.Contains(string(text), "${") {
		t.Errorf("%s holds ${, which the loader of assets would replace", dashboardFile)
	}
	var configMap corev1.ConfigMap
	env.Must(t, yaml.UnmarshalStrict(text, &configMap))
	if len(configMap.Data) != 1 {
		t.Fatalf("%d dashboards in the ConfigMap; the console shows the first", len(configMap.Data))
	}
	decoder := json.NewDecoder(strings.NewReader(configMap.Data["aws-efs-csi-driver.json"]))
	decoder.DisallowUnknownFields()
	var shown board
	env.Must(t, decoder.Decode(&shown))
	return configMap, shown
}

func panels(t *testing.T) []panel {
	t.Helper()
	_, shown := dashboard(t)
	var all []panel
	for _, row := range shown.Rows {
		all = append(all, row.Panels...)
	}
	if len(all) == 0 {
		t.Fatal("the dashboard has no panels in rows")
	}
	return all
}

func TestConsoleFindsTheDashboard(t *testing.T) {
	configMap, shown := dashboard(t)
	if configMap.Namespace != "openshift-config-managed" || configMap.Labels["console.openshift.io/dashboard"] != "true" {
		t.Errorf("the console does not look at namespace %q, labels %v", configMap.Namespace, configMap.Labels)
	}
	// The operator watches the name that its driver has, and no other one.
	efs := awsefs.Driver()
	if configMap.Name != efs.Dashboard() || shown.Title != "Storage / AWS EFS CSI driver" {
		t.Errorf("ConfigMap %q with title %q", configMap.Name, shown.Title)
	}
}

func TestConsoleCanShowEveryPanel(t *testing.T) {
	ids, titles := map[int]bool{}, map[string]bool{}
	for _, panel := range panels(t) {
		if panel.Title == "" || titles[panel.Title] || panel.ID == 0 || ids[panel.ID] {
			t.Errorf("panel %d %q: title or id are empty or not unique", panel.ID, panel.Title)
		}
		ids[panel.ID], titles[panel.Title] = true, true
		// The console leaves out what is of another type.
		if !slices.Contains([]string{"graph", "singlestat", "table"}, panel.Type) {
			t.Errorf("%s: the console does not show type %q", panel.Title, panel.Type)
		}
		if panel.Span < 1 || panel.Span > 12 {
			t.Errorf("%s: it spans %d of 12 columns", panel.Title, panel.Span)
		}
		if panel.Datasource != "$datasource" {
			t.Errorf("%s: datasource is %q", panel.Title, panel.Datasource)
		}
		checkTargets(t, panel)
	}
}

// checkTargets knows what the console makes of the targets of each type of panel.
func checkTargets(t *testing.T, panel panel) {
	t.Helper()
	if len(panel.Targets) == 0 || (panel.Type == "singlestat" && len(panel.Targets) != 1) {
		t.Errorf("%s: %d targets for a %s", panel.Title, len(panel.Targets), panel.Type)
	}
	patterns := map[string]bool{}
	for _, style := range panel.Styles {
		patterns[style.Pattern] = true
	}
	for _, target := range panel.Targets {
		if target.Expr == "" || target.RefID == "" {
			t.Errorf("%s: a target lacks expr or refId", panel.Title)
		}
		switch panel.Type {
		case "graph":
			if target.Legend == "" {
				t.Errorf("%s: a line without a legend", panel.Title)
			}
		case "table":
			// Rows are joined by the first label, so there must be just one.
			label := regexp.MustCompile(`^\w+ by \((\w+)\) `).FindStringSubmatch(target.Expr)
			if label == nil || !patterns[label[1]] || !patterns["Value #"+target.RefID] {
				t.Errorf("%s: target %s is not grouped by one label, or it or the value has no column", panel.Title, target.RefID)
			}
		}
	}
}

func TestDashboardReadsMetricsThatExist(t *testing.T) {

	var spec monitoringv1.PrometheusRuleSpec
	read := map[string]bool{}
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			for _, name := range metricNames(target.Expr) {
				read[name] = true
				selects := `{job="` + job + `"`
				switch {
				case !slices.Contains(knownMetrics(), name):
					t.Errorf("%s reads %s, which nobody exports", panel.Title, name)
				case strings.HasPrefix(name, "csi_sidecar_"):
					selects = `{driver_name="` + awsefs.Name + `"`
				case strings.HasPrefix(name, "csi_operator_"):
					selects = `{driver="` + awsefs.Name + `"`
				}
				// One name can be the beginning of another.
				reads := regexp.MustCompile(`\b`+name+`\b`).FindAllString(target.Expr, -1)
				if len(reads) != strings.Count(target.Expr, name+selects) {
					t.Errorf("%s reads %s of everybody, not %s…: %s", panel.Title, name, selects, target.Expr)
				}
			}
			spec.Groups = append(spec.Groups, monitoringv1.RuleGroup{
				Name: fmt.Sprint("panel ", panel.ID, target.RefID),
				Rules: []monitoringv1.Rule{{
					Record: "panel:target:value", Expr: intstr.FromString(target.Expr),
					Labels: map[string]string{"panel": fmt.Sprint(panel.ID, target.RefID)},
				}},
			})
		}
	}
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", writeRules(t, t.TempDir(), spec))
	for _, name := range []string{
		"csi_operator_condition", "csi_operator_controller_pods", "csi_operator_node_pods", "csi_operator_removal_blocking_pods",
		"csi_operator_access_points", "csi_operator_cloud_problem", "csi_operator_one_zone_volumes",
		"csi_sidecar_operations_seconds_bucket", "csi_sidecar_operations_seconds_count",
		"controller_runtime_reconcile_errors_total", "process_resident_memory_bytes",
	} {
		if !read[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}
