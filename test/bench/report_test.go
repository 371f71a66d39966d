package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ms(value float64) *float64 { return &value }

// sample has an operator that does everything, one that does not converge, and one that fails.
func sample() Report {
	good := Result{
		Operator: "ours",
		Start:    &StartCost{Requests: 7, Writes: 1, CPUSeconds: 0.05},
		Converge: &ConvergeCost{
			Requests: 28, Writes: 27, RolledOut: ms(714.2), LastRequest: ms(677.25), CPUSeconds: 0.14, ResidentKibibytes: 44032,
		},
		Idle: &IdleCost{Seconds: 30, LeaseRequests: 2, Watches: 1, CPUSeconds: 0.02, ResidentKibibytes: 44032},
		Repair: &RepairCost{
			Milliseconds: map[string]float64{"DaemonSet node": 31.2, "CSIDriver efs": 8.25, "ConfigMap ca": 12},
			NotRepaired:  []string{},
		},
		Remove: &RemoveCost{Milliseconds: ms(459.9), ObjectsLeft: []string{}, PeakKibibytes: 50176},
	}
	slow := Result{
		Operator: "peer",
		Start:    &StartCost{Requests: 40, CPUSeconds: 0.5},
		Converge: &ConvergeCost{Requests: 300, Writes: 120, CPUSeconds: 2.5, ResidentKibibytes: 102400},
		Idle:     &IdleCost{Seconds: 30, Requests: 15, CPUSeconds: 0.3, ResidentKibibytes: 102400},
		Repair:   &RepairCost{Milliseconds: map[string]float64{}, NotRepaired: []string{"DaemonSet node"}},
		Remove:   &RemoveCost{ObjectsLeft: []string{"ClusterRole a", "ClusterRole b"}, PeakKibibytes: 112640},
	}
	return Report{
		Date: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), System: "linux/amd64", Cores: 2, Kubernetes: "v1.36.3",
		LimitSeconds: 120, QuietSeconds: 5,
		Operators: []Program{{"ours", "operator", "0123456789ab", "go1.26"}, {"peer", "other", "v1.2.3", "go1.25"}},
		Scenarios: []ScenarioReport{
			{Scenario{Nodes: 12}, []Result{good, slow}},
			{Scenario{Nodes: 500, ForeignVolumes: 10000}, []Result{{Operator: "ours", FailedAt: "start"}}},
		},
	}
}

func TestTheTableHasAColumnForEachOperatorAndScenario(t *testing.T) {
	var got bytes.Buffer
	if err := writeTable(&got, sample()); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "table.txt")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("the table has changed; UPDATE=1 writes it anew. -want +got:\n%s", diff)
	}
}

func TestTheReportSurvivesItsFile(t *testing.T) {
	var file bytes.Buffer
	if err := writeJSON(&file, sample()); err != nil {
		t.Fatal(err)
	}
	var got Report
	decoder := json.NewDecoder(&file)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
