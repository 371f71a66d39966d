package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// phase is one thing that the operator does in the life of a driver.
type phase struct {
	name string
	// begin asks the operator for it.
	begin func(*testing.T, *env.Cluster)
	// want is what must be there at the end, by kind and name. It is learned from an operator that nobody disturbs.
	want map[string]map[string]any
	// cost is how many requests that took, and writes are the writes among them, but for the status.
	cost   int
	writes []string
}

// life are the phases in their order. The driver is removed at the end of the last one.
func life() []*phase {
	return []*phase{
		{name: "install", begin: func(t *testing.T, cluster *env.Cluster) {
			env.Must(t, cluster.Client.Create(t.Context(), env.EFS(operatorv1.Managed)))
		}},
		{name: "change", begin: func(t *testing.T, cluster *env.Cluster) {
			setLogLevel(t, cluster, operatorv1.Trace)
			damage(t, cluster)
		}},
		{name: "removal", begin: func(t *testing.T, cluster *env.Cluster) {
			env.Must(t, cluster.Client.Delete(t.Context(), env.EFS("")))
		}},
	}
}

// Whatever disturbs an operator, the driver's life leads to the same as without. One that nobody disturbs shows what that is.
func TestADisturbedOperatorComesToTheSameEnd(t *testing.T) {
	cluster := own(t)
	through := env.NewProxy(t, cluster)
	phases := life()
	start := undisturbed(t, cluster, through, phases)
	for _, scene := range []struct {
		name string
		run  func(*testing.T, *env.Cluster, *env.Proxy, []*phase, cost)
	}{
		{"TestOfTwoOperatorsOneActsAndTheOtherSucceeds", ofTwoOperatorsOneActsAndTheOtherSucceeds},
		{"TestAKilledOperatorIsSucceededByOneThatFinishes", aKilledOperatorIsSucceededByOneThatFinishes},
		{"TestRequestsThatFailAreRetriedInMeasure", requestsThatFailAreRetriedInMeasure},
	} {
		through.Set(nil)
		if !t.Run(scene.name, func(t *testing.T) { scene.run(t, cluster, through, phases, start) }) {
			// What follows would only report what has happened here.
			return
		}
	}
}

// cost is what an operator asks the API server for.
type cost struct{ requests, streams int }

// undisturbed runs the phases once and writes down what they lead to and what they cost. It returns the cost of a start.
func undisturbed(t *testing.T, cluster *env.Cluster, through *env.Proxy, phases []*phase) cost {
	t.Helper()
	through.Set(nil)
	operator := operate(t, cluster, through, alone)
	env.Eventually(t, "the operator works", operator.Started)
	env.Quiet(t, operator)
	start := cost{requests: len(through.Work()), streams: through.Streams()}
	for _, p := range phases {
		through.Set(nil)
		p.begin(t, cluster)
		env.Eventually(t, p.name+" settled", func() error { return p.settled(t.Context(), cluster) })
		// What the operator is content with is the wanted state; the e2e tests say what that must be.
		env.Quiet(t, operator)
		p.cost, p.writes = len(through.Work()), through.Writes()
		var err error
		p.want, err = contents(t.Context(), cluster)
		env.Must(t, err)
	}
	env.Must(t, operator.Stop())
	t.Logf("undisturbed, a start takes %d requests, an installation %d, a change %d, a removal %d",
		start.requests, phases[0].cost, phases[1].cost, phases[2].cost)
	if len(phases[0].want) == 0 || cmp.Equal(phases[0].want, phases[1].want) || len(phases[2].want) > 0 {
		t.Fatalf("%d objects are installed, %d after a change, which must make a difference, and %d are left",
			len(phases[0].want), len(phases[1].want), len(phases[2].want))
	}
	return start
}

// settled checks what the status says.
func (p *phase) settled(ctx context.Context, cluster *env.Cluster) error {
	if p.name == "removal" {
		return cluster.Gone(ctx, env.EFS(""))
	}
	return cluster.Settled(ctx)
}

// finished checks that a phase has led to the same as without any disturbance.
func (p *phase) finished(ctx context.Context, cluster *env.Cluster) error {
	if err := p.settled(ctx, cluster); err != nil {
		return err
	}
	got, err := contents(ctx, cluster)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(p.want, got); diff != "" {
		return errors.New("not as without disturbance (-want +got):\n" + diff)
	}
	return nil
}

// contents are all objects of the operator by kind and name, without what the operator is not responsible for.
func contents(ctx context.Context, cluster *env.Cluster) (map[string]map[string]any, error) {
	owned, err := cluster.Owned(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]map[string]any{}
	for i := range owned {
		object := &owned[i]
		found[fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())] = env.Content(object)
	}
	return found, nil
}
