package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// The operator is killed without notice at its n-th request of a phase, reads included, and another one has to finish
// what it has begun. For the API server there are two cases: it has got the request, or it has not.
func aKilledOperatorIsSucceededByOneThatFinishes(t *testing.T, cluster *env.Cluster, through *env.Proxy, phases []*phase, start cost) {
	operator := operate(t, cluster, through, alone)
	count := len(phases)
	if env.IsSoak(t) {
		count = env.Rounds(t)
	}
	for i, moment := range moments(env.Dice(t), count, phases) {
		p := moment.phase
		passed := t.Run(fmt.Sprintf("%d %s %s", i+1, p.name, moment.name), func(t *testing.T) {
			env.Eventually(t, "the operator works", operator.Started)
			moment.kill(t, cluster, through, operator)
		})
		if !passed {
			// What follows would only report what has happened here.
			return
		}
		through.Set(nil)
		operator = operate(t, cluster, through, alone)
		env.Eventually(t, p.name+" finished by the next operator", func() error { return p.finished(t.Context(), cluster) })
		env.Quiet(t, operator)
		// The next operator starts and at worst does all once more. How often a removal has to look depends on its pods.
		if made := through.Work(); len(made) > start.requests+3*p.cost {
			t.Errorf("the next operator needed %d requests to finish, a start takes %d and the %s %d",
				len(made), start.requests, p.name, p.cost)
		}
	}
	through.Set(nil)
	env.Must(t, cluster.Uninstall(t.Context()))
}

// moment is when the operator is killed.
type moment struct {
	phase *phase
	name  string
	// It is killed at the n-th request that matches. Arrives reports whether the API server gets that.
	match   func(*http.Request) bool
	n       int
	arrives bool
	// must is false if the operator may be done before that.
	must bool
}

// moments are random requests of one phase after the other, and one moment that chance would rarely find: between the
// two writes that undo an addition, of which the first alone looks as if nothing were left to do.
func moments(random *rand.Rand, count int, phases []*phase) []moment {
	var all []moment
	for i := range count {
		p := phases[i%len(phases)]
		n, arrives := 1+random.IntN(p.cost), random.IntN(2) == 1
		all = append(all, moment{phase: p, name: fmt.Sprintf("at request %d, arrives %t", n, arrives), match: env.IsWork, n: n, arrives: arrives})
		if i == 1 {
			all = append(all, moment{phase: p, name: "between two writes", match: isMigration, n: 1, arrives: true, must: true})
		}
	}
	return all
}

// isMigration is true for the request that moves fields of others to the operator.
func isMigration(r *http.Request) bool {
	return r.Header.Get("Content-Type") == "application/merge-patch+json" && strings.HasSuffix(r.URL.Path, "/daemonsets/efs-csi-node")
}

// kill begins the phase and kills the operator.
func (m moment) kill(t *testing.T, cluster *env.Cluster, through *env.Proxy, operator *env.Operator) {
	t.Helper()
	certain := through.KillAt(m.match, m.n, m.arrives, operator.Kill)
	m.phase.begin(t, cluster)
	env.Eventually(t, "the operator killed", func() error {
		select {
		case <-operator.Done():
			if !certain() {
				t.Fatal("the operator ended by itself")
			}
			return nil
		default:
		}
		// It may need fewer requests than the one that was not disturbed: then it is killed at the end.
		if m.phase.finished(t.Context(), cluster) == nil {
			operator.Kill()
			if m.must {
				t.Fatal("the operator has finished, and the moment to kill it has not come")
			}
			return nil
		}
		return errors.New("it works")
	})
}
