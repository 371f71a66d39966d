package efshealth

import (
	"context"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/controller/efshealth/reports"
	"github.com/csi-operators/csi-operators/internal/kube/prometheus"
	"github.com/csi-operators/csi-operators/internal/kube/status"
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
			r.Off, r.Reports = off, &reports.Watch{Live: c, Cache: c, Prometheus: stalls{}, Now: r.Now, Changed: r.requestReconcile}
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
	r.Reports = &reports.Watch{Live: c, Cache: c, Prometheus: stalls{}, Now: r.Now, Changed: r.requestReconcile}
	for _, object := range c.Objects {
		if cr, ok := object.(*operatorv1.ClusterCSIDriver); ok {
			cr.Spec.ManagementState = operatorv1.Removed
			// The finalizer of another program can stay for ever.
			cr.Finalizers = []string{"example.com/other"}
			cr.Status.Conditions = []operatorv1.OperatorCondition{{Type: "AWSEFSMountsStalled", Status: operatorv1.ConditionTrue}}
		}
	}
	r.Reports.Configure(true)
	r.Reports.Tick(t.Context())
	if _, err := r.Reconcile(t.Context(), r.request()); err != nil {
		t.Fatal(err)
	}
	if hanging, _, awaited := r.Reports.Hanging(); hangs(t, c) || len(c.Writes) != 1 || hanging != nil || awaited {
		t.Errorf("the condition stays: writes %q", c.Sent())
	}
}

// quiet is a Prometheus that scrapes a node without problems.
type quiet struct{}

func (quiet) Query(_ context.Context, query string) ([]prometheus.Sample, error) {
	isAboutTargets := strings.HasPrefix(query, "count by (node)")
	return []prometheus.Sample{{Value: map[bool]float64{true: 1}[isAboutTargets], Labels: map[string]string{"node": "a"}}}, nil
}

// While a removal waits, the driver serves. So the condition about its mounts stays true, and conditions that nothing checks any more go.
func TestTheConditionStaysTrueWhileARemovalWaits(t *testing.T) {
	unwanted := map[string]func(*operatorv1.ClusterCSIDriver){
		"deleted": func(cr *operatorv1.ClusterCSIDriver) { cr.DeletionTimestamp = new(metav1.NewTime(at)) },
		"Removed": func(cr *operatorv1.ClusterCSIDriver) { cr.Spec.ManagementState = operatorv1.Removed },
	}
	for name, unwant := range unwanted {
		for want, from := range map[bool]reports.Prometheus{true: stalls{}, false: quiet{}} {
			before := status.Condition("AWSEFSMountsStalled", !want, "Before", "")
			r, c := tripOn(t, &scripted{})
			r.Reports = &reports.Watch{Live: c, Cache: c, Prometheus: from, Now: r.Now, Changed: r.requestReconcile}
			for _, object := range c.Objects {
				if cr, ok := object.(*operatorv1.ClusterCSIDriver); ok {
					unwant(cr)
					// The operator drops its own finalizer last, and those of predecessors.
					cr.Finalizers = []string{r.Driver.Finalizer()}
					if r.Driver.LegacyFinalizers = []string{"example.com/predecessor"}; name == "Removed" {
						cr.Finalizers = r.Driver.LegacyFinalizers
					}
					cr.Status.Conditions = []operatorv1.OperatorCondition{before, status.Condition("AWSEFSCloudUnreachable", true, "Before", "")}
				}
			}
			r.Reports.Configure(true)
			r.Reports.Tick(t.Context())
			if _, err := r.Reconcile(t.Context(), r.request()); err != nil {
				t.Fatal(err)
			}
			cr := canned.Written[operatorv1.ClusterCSIDriver](t, c, conditionsWrite)
			if cr == nil || len(cr.Status.Conditions) != 1 || cr.Status.Conditions[0].Type != before.Type || hangs(t, c) != want {
				t.Errorf("%s: the writes are %q, want that mounts hang: %t", name, c.Bodies, want)
			}
		}
	}
}
