package efshealth

import (
	"context"
	"slices"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/controller/efshealth/reports"
	"github.com/csi-operators/csi-operators/internal/kube/prometheus"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// stalls is a Prometheus with a node whose mounts hang.
type stalls struct{}

func (stalls) Query(context.Context, string) ([]prometheus.Sample, error) {
	return []prometheus.Sample{{Value: 1, Labels: map[string]string{"node": "a"}}}, nil
}

// hangs reports whether the conditions of the last write say that mounts hang.
func hangs(t *testing.T, c *canned.Cluster) bool {
	t.Helper()
	cr := canned.Written[operatorv1.ClusterCSIDriver](t, c, conditionsWrite)
	return cr != nil && slices.ContainsFunc(cr.Status.Conditions, func(one operatorv1.OperatorCondition) bool {
		return one.Type == "AWSEFSMountsStalled" && one.Status == operatorv1.ConditionTrue
	})
}

// What nodes report does not depend on AWS, or on credentials.
func TestMountsThatHangAreReportedWithAndWithoutAWS(t *testing.T) {
	for name, off := range map[string]bool{"with AWS": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			r, c := tripOn(t, &scripted{})
			r.Off, r.Reports = off, &reports.Watch{Live: c, Prometheus: stalls{}, Now: r.Now, Changed: r.requestReconcile}
			reconcile := func() {
				if _, err := r.Reconcile(t.Context(), r.request()); err != nil {
					t.Fatal(err)
				}
			}
			reconcile()
			if hangs(t, c) {
				t.Error("mounts hang before Prometheus has answered")
			}
			r.Reports.Tick(t.Context())
			select {
			case <-r.polled:
			default:
				t.Error("the answer of Prometheus triggers no reconcile")
			}
			c.Writes, c.Bodies = nil, nil
			reconcile()
			if !hangs(t, c) {
				t.Errorf("no condition says that mounts hang, after the writes %q", c.Writes)
			}
		})
	}
}

func TestARemovedDriverHasNoMounts(t *testing.T) {
	r, c := tripOn(t, &scripted{})
	r.Reports = &reports.Watch{Live: c, Prometheus: stalls{}, Now: r.Now, Changed: r.requestReconcile}
	for _, object := range c.Objects {
		if cr, ok := object.(*operatorv1.ClusterCSIDriver); ok {
			cr.Spec.ManagementState = operatorv1.Removed
			cr.Status.Conditions = []operatorv1.OperatorCondition{{Type: "AWSEFSMountsStalled", Status: operatorv1.ConditionTrue}}
		}
	}
	r.Reports.Configure(true)
	r.Reports.Tick(t.Context())
	if _, err := r.Reconcile(t.Context(), r.request()); err != nil {
		t.Fatal(err)
	}
	if hangs(t, c) || len(c.Writes) != 1 || r.Reports.Hanging() != nil {
		t.Errorf("the condition stays: writes %q", c.Sent())
	}
}
