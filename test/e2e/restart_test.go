package e2e

import (
	"fmt"
	"testing"

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
