package faults

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// renewing is how often a leader renews its lease, and how often another operator looks for it. OpenShift's time is 26 s.
const renewing = "--leader-elect-retry-period=3s"

// Each of two operators has a proxy of its own, which separates their requests.
func ofTwoOperatorsOneActsAndTheOtherSucceeds(t *testing.T, cluster *env.Cluster, one *env.Proxy, phases []*phase, _ cost) {
	install, change := phases[0], phases[1]
	two := env.NewProxy(t, cluster)
	first := operate(t, cluster, one, renewing)
	env.Eventually(t, "the first operator leads", first.Started)
	leader := holder(t, cluster)
	second := operate(t, cluster, two, renewing)
	env.Eventually(t, "the second operator asks for the lease", func() error {
		return prints(second, "Attempting to acquire leader lease")
	})
	one.Set(nil)
	install.begin(t, cluster)
	env.Eventually(t, "driver installed", func() error { return install.finished(t.Context(), cluster) })
	env.Quiet(t, first)
	if diff := cmp.Diff(install.writes, one.Writes()); diff != "" {
		t.Errorf("writes of the leader beside another operator (-alone +beside):\n%s", diff)
	}
	if made := two.Writes(); len(made) > 0 {
		t.Errorf("the operator that does not lead has written:\n%s", strings.Join(made, "\n"))
	}
	if now := holder(t, cluster); now != leader || second.Started() == nil {
		t.Errorf("%s leads, before it was %s; what the second operator prints:\n%s", now, leader, second.Output())
	}

	env.Must(t, first.Stop())
	if now := holder(t, cluster); now == leader {
		t.Errorf("%s holds the lease although it has ended", now)
	}
	change.begin(t, cluster)
	env.Eventually(t, "the change finished by the second operator", func() error { return change.finished(t.Context(), cluster) })
	if now := holder(t, cluster); now == leader || now == "" {
		t.Errorf("%q holds the lease, the first leader was %s", now, leader)
	}
	if env.IsSoak(t) {
		second = killedLeader(t, cluster, second)
	}
	env.Quiet(t, second)
	env.Must(t, cluster.Uninstall(t.Context()))
}

// killedLeader ends the leader without notice. In make test, a test of test/e2e waits until the lease of a lost pod has expired.
func killedLeader(t *testing.T, cluster *env.Cluster, leader *env.Operator) *env.Operator {
	t.Helper()
	want, err := contents(t.Context(), cluster)
	env.Must(t, err)
	leader.Kill()
	damage(t, cluster)
	next := operate(t, cluster, nil, renewing)
	env.Eventually(t, "the lease of a killed leader expired", next.Started)
	env.Eventually(t, "the damage undone by the next leader", func() error {
		got, err := contents(t.Context(), cluster)
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			err = fmt.Errorf("not as before (-want +got):\n%s", diff)
		}
		return err
	})
	return next
}

// holder is who leads.
func holder(t *testing.T, cluster *env.Cluster) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: env.OperatorNamespace, Name: env.OperatorName + "-lock"}, lease))
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func prints(operator *env.Operator, text string) error {
	if !strings.Contains(operator.Output(), text) {
		return fmt.Errorf("it has not printed %q", text)
	}
	return nil
}
