package releases

import (
	"context"
	"errors"
	"fmt"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// A ServiceMonitor that such a cluster refuses is no reason to be without the driver, and there is none that it refuses.
func TestInstallEndsAvailableWithPrometheusOperator76(t *testing.T) {
	s := suite.cluster
	env.Must(t, s.InstallManifests(t.Context()))
	wanted, err := monitoringOf(monitoring76)
	env.Must(t, err)
	s.define(t, wanted)

	operator, err := s.StartOperator(t.Context(), []string{"--leader-elect=false"}, nil)
	env.Must(t, err)
	env.StopAtEnd(t, operator)
	t.Cleanup(func() {
		if err := s.Uninstall(context.Background()); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	env.Must(t, s.Client.Create(t.Context(), env.EFS(operatorv1.Managed)))
	env.Eventually(t, "Available with a version", func() error {
		cr := env.EFS("")
		err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr)
		if cr.Status.Version != "1.0.0" {
			err = errors.Join(err, fmt.Errorf("version %q", cr.Status.Version))
		}
		return errors.Join(err, s.Settled(t.Context()))
	})
	monitors := &monitoringv1.ServiceMonitorList{}
	env.Must(t, s.Client.List(t.Context(), monitors, client.InNamespace(env.OperatorNamespace),
		client.MatchingLabels{"app.kubernetes.io/managed-by": env.OperatorName}))
	if len(monitors.Items) == 0 {
		t.Error("the driver has no ServiceMonitor: this shows nothing")
	}
}
