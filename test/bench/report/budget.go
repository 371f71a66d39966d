package report

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// budget is what our operator may cost. The existing operator needs 285 requests and 120 writes to converge, 95 MiB with 12
// nodes and 140 MiB in a large cluster, and up to 60 s for a repair.
type budget struct {
	requests, writes, residentMebibytes int
	repairMilliseconds                  float64
	// changeRequests are those of a roll-out of a change.
	changeRequests int
}

// requestsForEachNode is what a roll-out may cost for each node: its pod is deleted, its new pod and its CSINode are looked at.
const requestsForEachNode = 4

// budgetOf depends on the size of the cluster. Volumes of EFS take memory, and requests to report what AWS says of them.
func budgetOf(scenario Scenario) budget {
	all := budget{residentMebibytes: 70, repairMilliseconds: 1000, changeRequests: requestsForEachNode * scenario.Nodes}
	switch {
	case scenario.Nodes <= 12:
		// The few requests of any change weigh more than those for its nodes.
		all.requests, all.writes, all.residentMebibytes, all.changeRequests = 30, 28, 60, 0
	case scenario.Nodes > 500 || scenario.Shares > 0:
		// 10,000 SharedVolumes wake up with the CSIDriver that they wait for.
		all.residentMebibytes, all.repairMilliseconds = 160, 5000
	case scenario.Volumes == 0:
		all.requests, all.residentMebibytes = 40, 60
	}
	return all
}

// OverBudget says where our operator costs more than it may.
func (r Report) OverBudget() error {
	var problems []error
	for _, scenario := range r.Scenarios {
		for _, result := range scenario.Results {
			for _, problem := range budgetOf(scenario.Scenario).check(result) {
				problems = append(problems, fmt.Errorf("over budget with %s: %s", scenario.Scenario, problem))
			}
		}
	}
	return errors.Join(errors.Join(problems...), r.overSharedBudget(), r.overVCenterBudget(), r.overReaderBudget())
}

func (b budget) check(result Result) []string {
	var problems []string
	over := func(what string, got, most float64) {
		if most > 0 && got > most {
			problems = append(problems, fmt.Sprintf("%s: %.0f, at most %.0f", what, got, most))
		}
	}
	if converge := result.Converge; converge != nil {
		over("requests to converge", float64(converge.Requests), float64(b.requests))
		over("writes to converge", float64(converge.Writes), float64(b.writes))
	}
	if idle := result.Idle; idle != nil {
		if idle.Requests > 0 {
			problems = append(problems, fmt.Sprintf("requests while idle: %d, none are allowed: %v", idle.Requests, idle.Kinds))
		}
		over("MiB of resident memory", float64(idle.ResidentKibibytes)/1024, float64(b.residentMebibytes))
	}
	if change := result.Change; change != nil {
		over("requests to roll out a change", float64(change.Requests), float64(b.changeRequests))
		if change.RolledOut == nil {
			problems = append(problems, "a change is not rolled out within the limit")
		}
	}
	if repair := result.Repair; repair != nil {
		for _, name := range slices.Sorted(maps.Keys(repair.Milliseconds)) {
			over("milliseconds to repair "+name, repair.Milliseconds[name], b.repairMilliseconds)
		}
		for _, name := range repair.NotRepaired {
			problems = append(problems, name+" was not repaired")
		}
	}
	if remove := result.Remove; remove != nil && len(remove.ObjectsLeft) > 0 {
		problems = append(problems, fmt.Sprintf("objects left after removal: %v", remove.ObjectsLeft))
	}
	return problems
}
