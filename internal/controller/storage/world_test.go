package storage

import (
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/status"
	"github.com/csi-operators/csi-operators/internal/tlsprofile"
)

func TestATLSProfileThatCannotBeReadIsToldAndHoldsNothingUp(t *testing.T) {
	apiServer := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"tlsSecurityProfile": "Modern"}}}
	apiServer.SetGroupVersionKind(tlsprofile.Kind())
	apiServer.SetName(singleton)
	r := newReporter()
	r.Reconciler = reconcilerOf(newCluster(t, apiServer), entries()...)
	w, err := r.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tlsprofile.Intermediate(), w.tls.Profile); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
	w.infrastructure = infrastructure("AWS")
	conditions, _ := r.starterConditions(w, nil)
	told := status.Find(conditions, "CSIDriverStarterDegraded")
	if told == nil || told.Status != operatorv1.ConditionTrue || !strings.Contains(told.Message, "correct spec.tlsSecurityProfile of APIServer cluster") {
		t.Errorf("it says %+v", told)
	}
}
