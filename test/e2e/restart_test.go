package e2e

import (
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

func TestARestartedOperatorWritesNothing(t *testing.T) {
	cluster := clean(t)
	first := operate(t, cluster)
	create(t, cluster)
	env.Quiet(t, first)
	env.Must(t, first.Stop())
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	second := operate(t, cluster)
	uninstallAtEnd(t, cluster)
	env.Eventually(t, "a reconcile", func() error {
		count, err := second.Metric(t.Context(), "controller_runtime_reconcile_total")
		if err == nil && count == 0 {
			err = fmt.Errorf("none yet")
		}
		return err
	})
	env.Quiet(t, second)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	if writes := env.Filter(requests, env.Request.IsWrite); len(writes) > 0 {
		t.Errorf("a restart costs %d writes:\n%s", len(writes), env.Describe(writes))
	}
}

// The list of one kind after another, instead of one stream, is what older API servers need.
func TestTheDriverIsInstalledWithoutStreamedLists(t *testing.T) {
	cluster := clean(t)
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	operator, err := cluster.StartOperator(t.Context(), []string{"--leader-elect=false"}, []string{"KUBE_FEATURE_WatchListClient=false"})
	env.Must(t, err)
	t.Cleanup(func() { env.Must(t, operator.Stop()) })
	install(t, cluster)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	if lists := env.Filter(requests, func(r env.Request) bool { return r.Verb == "list" }); len(lists) == 0 {
		t.Error("no kind was listed: this test no longer shows what it is about")
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
