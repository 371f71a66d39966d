package levels

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// panel is a graph.
type panel struct {
	title, expression, unit string
}

// panels returns the graphs of all service levels in a cluster. The dashboards for the console and for Grafana have the same graphs.
func panels() []panel {
	return []panel{
		{"Share of bad events in six hours", Burn + "6h * " + Budget, "percentunit"},
		{"Burn rate of error budgets over one hour (1 is allowed)", Burn + "1h", "short"},
		{"Burn rate of error budgets over six hours (1 is allowed)", Burn + "6h", "short"},
		{"Burn rate of error budgets over three days (1 is allowed)", Burn + "3d", "short"},
	}
}

const (
	title  = "Storage / Service levels of CSI drivers"
	uid    = "csi-driver-service-levels"
	legend = "{{driver}} {{sli}}"
)

// Console returns the dashboard of OpenShift's console. The console reads an old format of Grafana, from ConfigMaps with this label in this namespace
// (openshift/console 4.15 and later, frontend/packages/console-app).
func Console() (*corev1.ConfigMap, error) {
	var row []any
	for i, panel := range panels() {
		row = append(row, map[string]any{
			"id": i + 1, "type": "graph", "title": panel.title, "datasource": "$datasource", "span": 6, "legend": map[string]any{"show": true},
			"yaxes":   []any{map[string]any{"format": panel.unit, "min": 0}, map[string]any{"format": "short"}},
			"targets": []any{map[string]any{"expr": panel.expression, "refId": "A", "format": "time_series", "legendFormat": legend}},
		})
	}
	text, err := json.MarshalIndent(map[string]any{
		"title": title, "uid": uid, "schemaVersion": 14, "tags": []any{"storage"}, "refresh": "1m",
		"time": map[string]any{"from": "now-1d", "to": "now"},
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "type": "datasource", "query": "prometheus", "hide": 2},
		}},
		"rows": []any{map[string]any{"title": "Service levels", "showTitle": true, "collapse": false, "panels": row}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the dashboard: %w", err)
	}
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name: uid, Namespace: "openshift-config-managed", Labels: map[string]string{"console.openshift.io/dashboard": "true"},
		},
		Data: map[string]string{uid + ".json": string(text) + "\n"},
	}, nil
}

// Grafana returns the dashboard for Grafana 10 and later.
func Grafana() ([]byte, error) {
	source := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	var all []any
	for i, panel := range panels() {
		all = append(all, map[string]any{
			"id": i + 1, "type": "timeseries", "title": panel.title, "datasource": source,
			"gridPos":     map[string]any{"x": 12 * (i % 2), "y": 9 * (i / 2), "w": 12, "h": 9},
			"fieldConfig": map[string]any{"defaults": map[string]any{"unit": panel.unit, "min": 0}, "overrides": []any{}},
			"targets":     []any{map[string]any{"refId": "A", "datasource": source, "expr": panel.expression, "legendFormat": legend}},
		})
	}
	text, err := json.MarshalIndent(map[string]any{
		"title": title, "uid": uid, "schemaVersion": 39, "tags": []any{"storage"}, "refresh": "1m", "editable": true,
		"time": map[string]any{"from": "now-1d", "to": "now"}, "panels": all,
		"templating": map[string]any{"list": []any{map[string]any{"name": "datasource", "type": "datasource", "query": "prometheus"}}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the dashboard: %w", err)
	}
	return append(text, '\n'), nil
}
