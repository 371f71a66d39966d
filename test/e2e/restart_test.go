package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// aRestartedOperatorWritesNothing begins with an operator that has just been started, after another one had come to rest and ended.
func aRestartedOperatorWritesNothing(t *testing.T, cluster *env.Cluster, operator *env.Operator, mark env.Mark) {
	t.Helper()
	env.Eventually(t, "a reconcile", func() error {
		count, err := operator.Metric(t.Context(), "controller_runtime_reconcile_total")
		if err == nil && count == 0 {
			err = errors.New("none yet")
		}
		return err
	})
	env.Quiet(t, operator)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	if writes := env.Filter(requests, env.Request.IsWrite); len(writes) > 0 {
		t.Errorf("a restart costs %d writes:\n%s", len(writes), env.Describe(writes))
	}
}

func TestTheLeaseIsGivenBackAtTheEnd(t *testing.T) {
	cluster := clean(t)
	holder := func() string {
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: env.OperatorNamespace, Name: "aws-efs-csi-driver-operator-lock"}
		env.Must(t, cluster.Client.Get(t.Context(), key, lease))
		if lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	operator, err := cluster.StartOperator(t.Context(), nil, nil)
	env.Must(t, err)
	defer operator.Kill()
	env.Eventually(t, "the operator leads", operator.Started)
	if holder() == "" {
		t.Error("nobody holds the lease while the operator leads")
	}
	env.Must(t, operator.Stop())
	if name := holder(); name != "" {
		t.Errorf("%s holds the lease after its end: the next operator has to wait", name)
	}
}

// podOperator is an operator with the UID of a pod, whose readiness probe can be asked.
type podOperator struct {
	*env.Operator
	health string
}

func operateInPod(t *testing.T, cluster *env.Cluster, uid string, args ...string) podOperator {
	t.Helper()
	health, err := env.FreeAddress(t.Context())
	env.Must(t, err)
	operator, err := cluster.StartOperator(t.Context(), append(args, "--health-probe-bind-address", health), []string{"POD_UID=" + uid})
	env.Must(t, err)
	env.StopAtEnd(t, operator)
	return podOperator{operator, health}
}

// ready is the readiness probe of the pod.
func (p podOperator) ready() error {
	response, err := http.Get("http://" + p.health + "/readyz")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", response.Status)
	}
	return nil
}

// waits returns an error until the operator asks for the Lease.
func (p podOperator) waits() error {
	if !strings.Contains(p.Output(), "Attempting to acquire leader lease") {
		return fmt.Errorf("it does not ask for the Lease")
	}
	return nil
}

func TestAContainerThatStartsAgainLeadsAtOnce(t *testing.T) {
	cluster := clean(t)
	lease := func() coordinationv1.LeaseSpec {
		lease := &coordinationv1.Lease{}
		env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: env.OperatorNamespace, Name: env.OperatorName + "-lock"}, lease))
		return lease.Spec
	}
	leader := operateInPod(t, cluster, "one")
	env.Eventually(t, "the first operator leads", leader.Started)
	standby := operateInPod(t, cluster, "two")
	env.Eventually(t, "the second operator asks for the Lease", standby.waits)
	env.Eventually(t, "the leader is ready", leader.ready)
	env.Eventually(t, "the standby is ready", standby.ready)
	before := lease()

	leader.Kill()
	again := operateInPod(t, cluster, "one")
	env.Eventually(t, "the container that starts again leads", again.Started)
	after := lease()
	if *after.HolderIdentity != *before.HolderIdentity || *after.LeaseTransitions != *before.LeaseTransitions || standby.Started() == nil {
		t.Errorf("the Lease went from %s to %s, with %d changes", *before.HolderIdentity, *after.HolderIdentity,
			*after.LeaseTransitions-*before.LeaseTransitions)
	}
}

// A pod that is lost with its node comes back under another UID, and waits until the Lease has expired: five tries, of which each comes after the
// time between two renewals or later. Before them it sees the last renewal, and the one after them succeeds.
func TestAStandbyLeadsWhenTheLeaseOfALostPodHasExpired(t *testing.T) {
	cluster := clean(t)
	const soon = "--leader-elect-retry-period=1s"
	leader := operateInPod(t, cluster, "one", soon)
	env.Eventually(t, "the first operator leads", leader.Started)
	standby := operateInPod(t, cluster, "two", soon)
	env.Eventually(t, "the second operator asks for the Lease", standby.waits)
	leader.Kill()
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	env.Eventually(t, "the standby leads", standby.Started)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	tries := env.Filter(requests, func(r env.Request) bool { return r.Object.Resource == "leases" && r.Verb == "get" })
	if len(tries) == 0 || len(tries) > 7 {
		t.Errorf("the standby led after %d tries, at most 7 are two durations of the Lease:\n%s", len(tries), env.Describe(tries))
	}
}
