package main

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
}

// budgetOf depends on the size of the cluster. A roll-out over many nodes is reported step by step, so that only small
// clusters have a limit of requests.
func budgetOf(scenario Scenario) budget {
	if scenario.Nodes <= 12 {
		return budget{requests: 45, writes: 30, residentMebibytes: 60, repairMilliseconds: 1000}
	}
	return budget{residentMebibytes: 90, repairMilliseconds: 1000}
}

// overBudget says where our operator costs more than it may.
func (r Report) overBudget() error {
	var problems []error
	for _, scenario := range r.Scenarios {
		for _, result := range scenario.Results {
			if result.Operator == oursName {
				for _, problem := range budgetOf(scenario.Scenario).check(result) {
					problems = append(problems, fmt.Errorf("over budget with %d nodes and %d PVs: %s", scenario.Nodes, scenario.OtherVolumes, problem))
				}
			}
		}
	}
	return errors.Join(errors.Join(problems...), r.overSharedBudget())
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
			problems = append(problems, fmt.Sprintf("requests while idle: %d, none are allowed", idle.Requests))
		}
		over("MiB of resident memory", float64(idle.ResidentKibibytes)/1024, float64(b.residentMebibytes))
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
