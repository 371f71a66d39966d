package storage

import (
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

func TestATLSProfileThatCannotBeReadIsReportedAndHoldsNothingUp(t *testing.T) {
	apiServer := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"tlsSecurityProfile": "Modern"}}}
	apiServer.SetGroupVersionKind(openshift.APIServerKind())
	apiServer.SetName(openshift.Singleton)
	w, err := reconcilerOf(newCluster(t, apiServer), entries()...).read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(openshift.IntermediateTLS(), w.TLS.Profile); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
	w.Infrastructure = infrastructure("AWS")
	conditions, _ := newMemory().starterConditions(w, nil)
	told := status.Find(conditions, "CSIDriverStarterDegraded")
	if told == nil || told.Status != operatorv1.ConditionTrue || !strings.Contains(told.Message, "correct spec.tlsSecurityProfile of APIServer cluster") {
		t.Errorf("it says %+v", told)
	}
}
