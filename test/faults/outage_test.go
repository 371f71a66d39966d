package faults

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// The API server is away until the operator has failed twice to renew its lease. It gives up the lease after four times as long as it waits between
// two renewals.
func TestAnOperatorOutlivesAnOutageOfTheAPIServer(t *testing.T) {
	cluster := own(t)
	operator := operate(t, cluster, nil, "--leader-elect-retry-period=8s")
	phases := life()
	install, change := phases[0], phases[1]
	env.Eventually(t, "the operator leads", operator.Started)
	learn := func(p *phase) {
		mark, err := cluster.Audit.Now()
		env.Must(t, err)
		p.begin(t, cluster)
		env.Eventually(t, p.name+" settled", func() error { return p.settled(t.Context(), cluster) })
		env.Quiet(t, operator)
		p.cost = len(work(t, cluster, mark))
		p.want, err = contents(t.Context(), cluster)
		env.Must(t, err)
	}
	learn(install)
	learn(change)
	// It sleeps meanwhile, so that it can't finish before the API server goes, and wakes up to a change that it can't make.
	env.Must(t, syscall.Kill(operator.PID(), syscall.SIGSTOP))
	setLogLevel(t, cluster, operatorv1.Normal)
	stopped := cluster.StopComponent(t.Context(), "kube-apiserver")
	env.Must(t, syscall.Kill(operator.PID(), syscall.SIGCONT))
	env.Must(t, stopped)
	before := metric(t, operator, "controller_runtime_reconcile_total")
	env.Eventually(t, "the second failure to renew the lease", func() error {
		select {
		case <-operator.Done():
			t.Fatal("the operator has ended because the API server was away")
		default:
		}
		if failures := strings.Count(operator.Output(), "Error retrieving lease lock"); failures < 2 {
			return fmt.Errorf("%d failures", failures)
		}
		return nil
	})
	tries := metric(t, operator, "controller_runtime_reconcile_total") - before
	if tries > 20 {
		t.Errorf("%v reconciles while the API server was away: retries must become rarer", tries)
	}
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	env.Must(t, cluster.StartComponent(t.Context(), "kube-apiserver"))
	// What waits for its next try waits up to a minute.
	env.Must(t, env.AwaitFor(t.Context(), 2*time.Minute, "what was asked for before the outage", func() error {
		return install.finished(t.Context(), cluster)
	}))
	change.begin(t, cluster)
	env.Eventually(t, "what was asked for after the outage", func() error { return change.finished(t.Context(), cluster) })
	env.Quiet(t, operator)
	made := work(t, cluster, mark)
	t.Logf("%v reconciles in the outage; an installation takes %d requests, a change %d; after the outage there were %d",
		tries, install.cost, change.cost, len(made))
	// Two changes wait, each of which replaces all node pods. The rest is for tries that the outage has spoilt.
	if most := install.cost + 2*change.cost; len(made) >= most {
		t.Errorf("%d requests after the outage, want fewer than %d, those of two changes and an installation:\n%s", len(made), most, env.Describe(made))
	}
	nothingButTheLease(t, cluster)
	select {
	case <-operator.Done():
		t.Error("the operator has ended")
	default:
	}
	env.Must(t, cluster.Uninstall(t.Context()))
}

// work are the requests of the operator since a mark that are neither watches nor leader election.
func work(t *testing.T, cluster *env.Cluster, mark env.Mark) []env.Request {
	t.Helper()
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	return env.Filter(requests, func(r env.Request) bool { return r.Verb != "watch" && !r.IsLease() })
}

// nothingButTheLease waits until the lease is renewed and allows no other request before that.
func nothingButTheLease(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	env.Eventually(t, "the lease renewed", func() error {
		requests, err := cluster.Audit.Since(mark, env.OperatorUser)
		env.Must(t, err)
		renewals := env.Filter(requests, func(r env.Request) bool { return r.IsLease() && r.IsWrite() })
		if len(renewals) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if made := work(t, cluster, mark); len(made) > 0 {
		t.Errorf("an operator with nothing to do asks for:\n%s", env.Describe(made))
	}
}

func metric(t *testing.T, operator *env.Operator, name string) float64 {
	t.Helper()
	value, err := operator.Metric(t.Context(), name)
	env.Must(t, err)
	return value
}
