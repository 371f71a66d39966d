package status

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// autoscaled is a roll-out in a cluster in which nodes come and go. Each node has done 0, 1 or 2: its pod is updated, and available.
type autoscaled struct {
	Rollouts
	now    time.Time
	random *rand.Rand
	// healthy are nodes that get their pods, and broken those on which the pod fails. Outdated nodes are healthy, and wait for their turn.
	healthy, broken []int64
	outdated        int
}

func newAutoscaled(random *rand.Rand) *autoscaled {
	a := &autoscaled{random: random, now: time.Unix(0, 0)}
	a.Now = func() time.Time { return a.now }
	a.healthy = slices.Repeat([]int64{2}, 1+random.IntN(20))
	return a
}

// churn lets the new nodes go on, and then perhaps a node leave or join.
func (a *autoscaled) churn() {
	for i := range a.healthy {
		a.healthy[i] = min(2, a.healthy[i]+1)
	}
	for i := range a.broken {
		a.broken[i] = int64(a.random.IntN(2))
	}
	some := a.random.IntN(len(a.healthy))
	switch a.random.IntN(8) {
	case 0:
		a.healthy = append(a.healthy, 0)
	case 1:
		if len(a.healthy) > 1 {
			a.healthy = slices.Delete(a.healthy, some, some+1)
		}
	case 2:
		// One leaves and one joins before anything is looked at.
		a.healthy[some] = 0
	}
}

func (a *autoscaled) look() bool {
	total, done := 2*int64(len(a.healthy)+len(a.broken)+a.outdated), int64(a.outdated)
	for _, each := range slices.Concat(a.healthy, a.broken) {
		done += each
	}
	a.now = a.now.Add(time.Minute)
	failing := len(a.broken) > 0 && a.now.Sub(time.Unix(0, 0)) >= StuckAfter
	stuck, _ := a.Stuck("nodes", true, Work{Generation: 1, Total: total, Done: done, Failing: failing})
	return stuck
}

// A cluster that loses and gets a node every few minutes does not hide that the pods of other nodes fail.
func TestAStuckRolloutIsFoundWhateverNodesComeAndGo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for number := range 300 {
		a := newAutoscaled(random)
		a.broken = make([]int64, 1+random.IntN(3))
		// Each time that less is left than ever, it may be work.
		most := (1 + 2*len(a.broken)) * int(StuckAfter/time.Minute)
		stuck := a.look()
		for minute := 0; minute < most && !stuck; minute++ {
			a.churn()
			stuck = a.look()
		}
		if !stuck {
			t.Fatalf("cluster %d: with %d broken nodes it is not stuck after %d minutes", number, len(a.broken), most)
		}
	}
}

// Whatever nodes come and go, a roll-out that gets on with the others every few minutes is not stuck.
func TestARolloutThatGoesOnIsNotStuckWhateverNodesComeAndGo(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for number := range 300 {
		a := newAutoscaled(random)
		for a.outdated = 2 + random.IntN(20); a.outdated > 0; {
			for range 2 {
				a.churn()
				if a.look() {
					t.Fatalf("cluster %d: %d outdated nodes are left, and it is called stuck after %s", number, a.outdated, a.now.Sub(time.Unix(0, 0)))
				}
			}
			a.outdated--
			a.healthy = append(a.healthy, 2)
		}
	}
}

// growing is a roll-out in a cluster that gets nodes faster than their pods become ready. Kubernetes replaces no old pod meanwhile, because too many
// are not ready.
type growing struct {
	Rollouts
	now                    time.Time
	random                 *rand.Rand
	outdated, broken, done int64
	// starting has the minutes that each new pod still needs.
	starting []int
}

// minute lets some nodes join and the pods of others become ready, and returns whether the roll-out is called stuck.
func (g *growing) minute(joining int) bool {
	for range joining {
		g.starting = append(g.starting, 3+g.random.IntN(9))
	}
	g.now = g.now.Add(time.Minute)
	var starting []int
	for _, rest := range g.starting {
		if rest == 1 {
			g.done += 2
			continue
		}
		starting = append(starting, rest-1)
	}
	g.starting = starting
	// An outdated pod is available, and a new one updated.
	done := g.done + g.outdated + int64(len(g.starting)) + g.broken
	total := g.done + 2*(g.outdated+int64(len(g.starting))+g.broken)
	failing := g.broken > 0 && g.now.Sub(time.Unix(0, 0)) >= StuckAfter
	stuck, _ := g.Stuck("nodes", true, Work{Generation: 1, Total: total, Done: done, Failing: failing})
	return stuck
}

func newGrowing(random *rand.Rand) *growing {
	g := &growing{random: random, now: time.Unix(0, 0), outdated: 1 + random.Int64N(50)}
	g.Now = func() time.Time { return g.now }
	return g
}

func TestARolloutInAGrowingClusterIsNotStuck(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for number := range 100 {
		g := newGrowing(random)
		for minute := range 240 {
			if g.minute(1 + random.IntN(5)) {
				t.Fatalf("cluster %d is called stuck after %d minutes, although it grows and its pods become ready", number, minute)
			}
		}
		stuck := false
		for minute := 0; minute < 40 && !stuck; minute++ {
			stuck = g.minute(0)
		}
		if !stuck {
			t.Errorf("cluster %d: %d outdated pods are left 40 minutes after its growth, and it is not stuck", number, g.outdated)
		}
	}
}

// A cluster that grows does not hide a pod that fails.
func TestAFailingPodInAGrowingClusterIsFound(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for number := range 100 {
		g := newGrowing(random)
		g.broken = 1 + random.Int64N(3)
		minutes := 0
		for ; minutes < 60 && !g.minute(1+random.IntN(5)); minutes++ {
		}
		if minutes == 60 {
			t.Fatalf("cluster %d: with %d failing pods it is not stuck after an hour", number, g.broken)
		}
		g.done, g.broken = g.done+2*g.broken, 0
		for range 16 {
			g.minute(1 + random.IntN(5))
		}
		if g.minute(1) {
			t.Errorf("cluster %d is still called stuck when the failing pods are ready", number)
		}
	}
}
