package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
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
			Requests: 28, Writes: 27, RolledOut: ms(714.2), LastRequest: ms(677.25), CPUSeconds: 0.14, ResidentKibibytes: 44032, PeakKibibytes: 45056,
		},
		Change: &ChangeCost{Requests: 40, Writes: 22, RolledOut: ms(2500), CPUSeconds: 0.2, ResidentKibibytes: 45056},
		Rounds: []Round{{Share: &ShareCost{Exist: ms(700), Ready: ms(900), Requests: 90, Writes: 80, CPUSeconds: 0.4, ResidentKibibytes: 46080}}},
		Idle:   &IdleCost{Seconds: 30, LeaseRequests: 2, Watches: 1, CPUSeconds: 0.02, ResidentKibibytes: 44032},
		Repair: &RepairCost{
			Milliseconds: map[string]float64{"DaemonSet node": 31.2, "CSIDriver efs": 8.25, "ConfigMap ca": 12},
			NotRepaired:  []string{},
		},
		Remove: &RemoveCost{Milliseconds: ms(459.9), ObjectsLeft: []string{}, PeakKibibytes: 50176},
	}
	slow := Result{
		Operator: "ours",
		Start:    &StartCost{Requests: 40, CPUSeconds: 0.5},
		Converge: &ConvergeCost{Requests: 300, Writes: 120, CPUSeconds: 2.5, ResidentKibibytes: 102400},
		Idle:     &IdleCost{Seconds: 30, Requests: 15, CPUSeconds: 0.3, ResidentKibibytes: 102400},
		Repair:   &RepairCost{Milliseconds: map[string]float64{}, NotRepaired: []string{"DaemonSet node"}},
		Remove:   &RemoveCost{ObjectsLeft: []string{"ClusterRole a", "ClusterRole b"}, PeakKibibytes: 112640},
	}
	return Report{
		Date: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), System: "linux/amd64", Cores: 2, Kubernetes: "v1.36.3",
		LimitSeconds: 120, QuietSeconds: 5,
		Operators: []Program{{"ours", "operator", "0123456789ab", "go1.26"}},
		Scenarios: []ScenarioReport{
			{Scenario{Nodes: 12, Shares: 30}, []Result{good}},
			{Scenario{Nodes: 100}, []Result{slow}},
			{Scenario{Nodes: 500, OtherVolumes: 10000}, []Result{{Operator: "ours", FailedAt: "start"}}},
		},
		Shared: sharedSample(),
	}
}

// sharedSample has two rounds in which everything is done, one that is too slow, and one that fails.
func sharedSample() []SharedReport {
	pairs := &PairCost{Exist: ms(500), Most: ms(2900), Bound: ms(3000)}
	good := Round{
		Pairs: pairs,
		Share: &ShareCost{
			Exist: ms(700), Most: ms(3100), Bound: ms(3300.5), Ready: ms(3310), Requests: 901, Writes: 901,
			WriteKinds: map[string]int{"create persistentvolumes": 300}, CPUSeconds: 1.5, ResidentKibibytes: 51200,
		},
		Unshare: &UnshareCost{
			Gone: ms(6200), Requests: 910, Writes: 300, WriteKinds: map[string]int{"delete persistentvolumes": 300}, PeakKibibytes: 56320,
		},
	}
	slow := Round{
		Pairs:   pairs,
		Share:   &ShareCost{Exist: ms(1000), Most: ms(9000), Requests: 3000, Writes: 1500, CPUSeconds: 4.5, ResidentKibibytes: 71680},
		Unshare: &UnshareCost{Requests: 3000, Writes: 900, ObjectsLeft: 300, PeakKibibytes: 81920},
	}
	return []SharedReport{
		{300, 180, []Result{
			{Operator: "ours", Idle: &IdleCost{Seconds: 30}, Rounds: []Round{good, good}, Remove: &RemoveCost{ObjectsLeft: []string{}}},
			{Operator: "ours", Idle: &IdleCost{Seconds: 30, Requests: 15}, Rounds: []Round{slow}},
		}},
		{10000, 2120, []Result{{Operator: "ours", FailedAt: "share", Rounds: []Round{{Pairs: pairs}}}}},
	}
}

func TestWithoutNodesThereIsOneTable(t *testing.T) {
	report := sample()
	report.Scenarios = nil
	var got bytes.Buffer
	if err := report.WriteTable(&got); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got.String(), "requests to converge") || !strings.Contains(got.String(), "SharedVolumes Ready after") {
		t.Errorf("got\n%s", got.String())
	}
}

func TestTheTableHasAColumnForEachScenario(t *testing.T) {
	var got bytes.Buffer
	if err := sample().WriteTable(&got); err != nil {
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
	if err := sample().WriteJSON(&file); err != nil {
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

func TestAnObjectiveIsComparedWithTheLongestTime(t *testing.T) {
	report := sample()
	change, repair := report.Scenarios[0].Results[0].Change, report.Scenarios[0].Results[0].Repair
	for _, tc := range []struct {
		sli, measured, margin string
		change                func()
	}{
		{"repair", "31 ms", "3846.15 times", func() {}},
		{"repair", "130000 ms", "0.92 times, missed", func() { repair.Milliseconds["Service a"] = 130000 }},
		{"rollout", "2500 ms", "241920.00 times", func() {}},
		{"rollout", "not here", "not known", func() { change.RolledOut = nil }},
		{"ready", "3310 ms", "9.06 times", func() {}},
		{"ready", "3310 ms", "9.06 times", func() { report.Shared[1].Results[0].Rounds[0].Share = &ShareCost{Ready: ms(90000)} }},
		{"provisioning", "not here", "not known", func() {}},
	} {
		tc.change()
		for _, one := range report.objectives() {
			if one.level.SLI == tc.sli && (duration(one.took, "not here") != tc.measured || one.margin() != tc.margin) {
				t.Errorf("%s: %s, margin %s; want %s and %s", tc.sli, duration(one.took, "not here"), one.margin(), tc.measured, tc.margin)
			}
		}
	}
}
