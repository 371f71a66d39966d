package report

import (
	"strings"
	"testing"
)

func TestWhatCostsMoreThanItMayIsNamed(t *testing.T) {
	result := func(requests, writes, idle, kibibytes int, repair float64) Result {
		return Result{
			Operator: Ours,
			Converge: &ConvergeCost{Requests: requests, Writes: writes},
			Idle:     &IdleCost{Requests: idle, ResidentKibibytes: kibibytes},
			Repair:   &RepairCost{Milliseconds: map[string]float64{"DaemonSet efs-csi-node": repair}},
			Remove:   &RemoveCost{},
			Change:   &ChangeCost{Requests: 10 * requests, RolledOut: &repair},
		}
	}
	small, large, huge := Scenario{Nodes: 12}, Scenario{Nodes: 500, OtherVolumes: 10000}, Scenario{Nodes: 1000, Shares: 10000}
	volumes := Scenario{Nodes: 500, Volumes: 10000}
	stuck := result(1, 1, 0, 1, 1)
	stuck.Change.RolledOut = nil
	bad := result(29, 28, 0, 49*1024, 95)
	bad.Repair.NotRepaired, bad.Remove.ObjectsLeft = []string{"Role a"}, []string{"Role b"}
	for name, tc := range map[string]struct {
		scenario Scenario
		result   Result
		want     string
	}{
		"within":                        {small, result(30, 28, 0, 60*1024, 1000), ""},
		"a large cluster may cost more": {large, result(40, 40, 0, 60*1024, 999), ""},
		"a huge one even more":          {huge, result(60, 40, 0, 160*1024, 4999), ""},
		"memory of a huge cluster":      {huge, result(1, 1, 0, 161*1024, 1), "MiB of resident memory: 161, at most 160"},
		"requests of a change":          {volumes, result(201, 1, 0, 1, 1), "requests to roll out a change: 2010, at most 2000"},
		"a change that never ends":      {large, stuck, "a change is not rolled out"},
		"requests":                      {small, result(31, 28, 0, 1, 1), "requests to converge: 31, at most 30"},
		"writes":                        {small, result(30, 29, 0, 1, 1), "writes to converge: 29, at most 28"},
		"idle":                          {large, result(1, 1, 1, 1, 1), "requests while idle: 1"},
		"memory":                        {small, result(1, 1, 0, 62*1024, 1), "MiB of resident memory: 62, at most 60"},
		"memory of a large cluster":     {large, result(1, 1, 0, 62*1024, 1), "MiB of resident memory: 62, at most 60"},
		"requests of a large cluster":   {large, result(41, 1, 0, 1, 1), "requests to converge: 41, at most 40"},
		"memory with volumes":           {volumes, result(60, 40, 0, 72*1024, 1), "MiB of resident memory: 72, at most 70"},
		"a slow repair":                 {small, result(1, 1, 0, 1, 1200), "milliseconds to repair DaemonSet efs-csi-node: 1200, at most 1000"},
		"no repair":                     {small, bad, "Role a was not repaired"},
		"leftovers":                     {small, bad, "objects left after removal: [Role b]"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Report{Scenarios: []ScenarioReport{{Scenario: tc.scenario, Results: []Result{tc.result}}}}.OverBudget()
			if tc.want == "" && err != nil {
				t.Errorf("got %v, want nothing", err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
