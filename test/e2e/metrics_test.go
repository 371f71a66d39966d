package e2e

import (
	"errors"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// reconciles is how often the controller has run.
func reconciles(t *testing.T, operator *env.Operator) float64 {
	t.Helper()
	count, err := operator.Metric(t.Context(), "controller_runtime_reconcile_total")
	env.Must(t, err)
	return count
}

// costOf returns the requests that the operator makes because of a change; a watch that is opened again is none.
func costOf(t *testing.T, cluster *env.Cluster, operator *env.Operator, change func() error) []env.Request {
	t.Helper()
	env.Quiet(t, operator)
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	before := reconciles(t, operator)
	env.Must(t, change())
	env.Eventually(t, "a reconcile", func() error {
		if reconciles(t, operator) == before {
			return errors.New("none yet")
		}
		return nil
	})
	env.Quiet(t, operator)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	return env.Filter(requests, func(r env.Request) bool { return r.Verb != "watch" })
}
