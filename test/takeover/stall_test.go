package takeover

import (
	"errors"
	"fmt"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// If new pods do not become ready, the old ones of other nodes stay: a bad image must not take the driver from the whole cluster.
func TestAMigrationThatStallsStopsAndSaysWhere(t *testing.T) {
	const nodes = 23
	s := before(t, nodes, "openshift-operators")
	app := s.application(t, "shop", "web", s.workers[0])
	s.watch(t, nodes)
	env.HoldReadiness(t, s.Cluster, predecessors.NodeAccount, "worker", s.workers[0])
	operator := s.operate(t)
	s.create(t, nil)
	const budget = nodes / 10
	var stalled []string
	env.Eventually(t, "the budget used up", func() error {
		old, err := s.oldPods(t.Context())
		if err != nil {
			return err
		}
		stalled = nil
		for _, node := range s.workers {
			if old[node] == "" {
				stalled = append(stalled, node)
			}
		}
		if len(stalled) != budget {
			return fmt.Errorf("no old plugin on %v", stalled)
		}
		return nil
	})
	env.Eventually(t, "the nodes named that do not go on", func() error { return s.reports(t.Context(), "TakingOver", stalled...) })
	env.Quiet(t, operator)
	old, err := s.oldPods(t.Context())
	env.Must(t, err)
	if want := len(s.workers) - budget; len(old) != want {
		t.Errorf("%d old plugins are left, want %d", len(old), want)
	}
	env.ReleaseReadiness(t, s.Cluster, s.namespace, nodeDaemonSet)
	env.Eventually(t, "it goes on", func() error { return s.holdsOnly(t.Context(), app.Spec.NodeName) })
	s.stop(t, app)
	env.Eventually(t, "the driver taken over", func() error { return errors.Join(s.handedOver(t.Context(), nodes), s.communityGone(t.Context())) })
}
