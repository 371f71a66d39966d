package takeover

import (
	"errors"
	"fmt"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// If new pods do not become ready, the old ones of other nodes stay: a bad image must not take the driver from the whole cluster. A cluster that has
// no credentials for the driver, and nobody who mints them, holds up no node: static volumes need none.
func TestAMigrationWithoutCredentialsStopsOnlyWhereItStalls(t *testing.T) {
	s := open(t, few, "openshift-operators")
	mode := &operatorv1.CloudCredential{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	env.Must(t, s.Client.Patch(t.Context(), mode, env.Merge(`{"spec":{"credentialsMode":"Manual"}}`)))
	s.install(t)
	app := s.application(t, "shop", "web", s.workers[0])
	s.watch(t, few)
	env.HoldReadiness(t, s.Cluster, predecessors.NodeAccount, "worker", s.workers[0])
	operator := s.operate(t)
	s.create(t, nil)
	const budget = 1
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
	env.Eventually(t, "all nodes taken over, and the rest of the old driver gone", func() error {
		return errors.Join(s.holdsOnly(t.Context()), s.runs(t.Context(), s.daemonSet()), s.communityGone(t.Context()))
	})
	secrets := &corev1.SecretList{}
	env.Must(t, s.Client.List(t.Context(), secrets, client.InNamespace(s.namespace)))
	for i := range secrets.Items {
		if name := secrets.Items[i].Name; name == "aws-efs-cloud-credentials" || name == "node-aws-efs-cloud-credentials" {
			t.Errorf("there is Secret %s: this test no longer shows what it is about", name)
		}
	}
}
