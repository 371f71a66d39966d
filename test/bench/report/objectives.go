package report

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/release/levels"
)

// compared is an objective of a service level beside what the bench has measured.
type compared struct {
	level levels.Level
	// took is the longest time, in milliseconds, and where says when. took is nil if the bench has not measured it, and where says why.
	took  *float64
	where string
}

// margin is how many times longer a good event may take.
func (c compared) margin() string {
	if c.took == nil {
		return "not known"
	}
	text := factor(times(new(float64(c.level.Within/time.Millisecond)), c.took))
	if time.Duration(*c.took*float64(time.Millisecond)) > c.level.Within {
		text += ", missed"
	}
	return text
}

// objectives returns the objectives about durations of EFS. An objective about shares of time has no duration, and is not among them.
func (r Report) objectives() []compared {
	var all []compared
	for _, level := range levels.EFS(awsefs.Name, kube.DefaultNamespace).Levels {
		if level.Within == 0 {
			continue
		}
		one := compared{level: level}
		switch level.SLI {
		case "repair":
			r.slowestRepair(&one)
		case "rollout":
			r.slowestRollout(&one)
		case "ready":
			r.slowestReady(&one)
		default:
			one.where = "no pods serve CSI here: make test/node has the calls of real pods"
		}
		one.where = cmp.Or(one.where, "nothing was measured")
		all = append(all, one)
	}
	return all
}

// later notes a time if it is longer than those before.
func (c *compared) later(took *float64, where string) {
	if took != nil && (c.took == nil || *took > *c.took) {
		c.took, c.where = took, where
	}
}

func (r Report) slowestRepair(one *compared) {
	for _, scenario := range r.Scenarios {
		for _, result := range scenario.Results {
			if result.Repair != nil {
				took, name := slowest(result.Repair.Milliseconds)
				one.later(took, name+", "+scenario.String())
			}
		}
	}
}

func (r Report) slowestRollout(one *compared) {
	for _, scenario := range r.Scenarios {
		for _, result := range scenario.Results {
			if result.Change != nil {
				one.later(result.Change.RolledOut, "all pods new, "+scenario.String())
			}
		}
	}
}

// slowestReady takes the time until the last of all SharedVolumes is Ready. Each of them takes less, because it is created later. With more than
// OneRound at once, the time of the last says nothing about each.
func (r Report) slowestReady(one *compared) {
	for _, shared := range r.Shared {
		for _, result := range shared.Results {
			if share := typical(result.Rounds).Share; share != nil && shared.SharedVolumes <= OneRound {
				one.later(share.Ready, "the last of "+shared.String())
			}
		}
	}
}

// writeObjectives writes the table of objectives.
func (r Report) writeObjectives(table io.Writer) {
	_, _ = fmt.Fprint(table, "\nobjective\tgood within\tmeasured\tmargin\tlongest\n")
	for _, one := range r.objectives() {
		_, _ = fmt.Fprintf(table, "%s: %s\t%s\t%s\t%s\t%s\n", one.level.SLI, one.level.Title, one.level.Within, duration(one.took, "not here"), one.margin(), one.where)
	}
}
