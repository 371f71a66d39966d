package storage

import (
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func TestMetricsFollowWhatIsThereAndForgetWhatHasGone(t *testing.T) {
	registry := prometheus.NewRegistry()
	measured, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	class := func(name, value string) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{defaultAnnotation: value}}}
	}
	w := &seen{classes: []storagev1.StorageClass{class("a", "true"), class("b", "false"), class("c", "true")}, attributes: []storagev1.VolumeAttributesClass{
		{DriverName: "one", Parameters: map[string]string{"iops": "1"}}, {DriverName: "one", Parameters: map[string]string{"size": "1"}}, {DriverName: "two"},
	}}
	plain, gone := result{choice: choice{entry: entries()[0], decision: wanted}, driver: driver("2")}, unneeded(others())
	gone.removal.done = true
	measured.observe(w, []result{plain, *gone}, []operatorv1.OperatorCondition{said("ADegraded", true, ""), said("BDegraded", false, "")})
	want := map[string]float64{
		MetricDefaultClasses: 2, MetricMismatch + " one": 1, MetricMismatch + " two": 0,
		MetricDriver + " plain.example plain-operator Wanted 2": 1,
		MetricCondition + " ADegraded":                          1, MetricCondition + " BDegraded": 0,
	}
	if diff := cmp.Diff(want, canned.Metrics(t, registry)); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	measured.observe(&seen{}, nil, nil)
	if diff := cmp.Diff(map[string]float64{MetricDefaultClasses: 0}, canned.Metrics(t, registry)); diff != "" {
		t.Errorf("of an empty cluster (-want +got):\n%s", diff)
	}
	const twice = "register metrics: duplicate metrics collector registration attempted"
	if _, err := newMetrics(registry); err == nil || err.Error() != twice {
		t.Errorf("registered twice: %v", err)
	}
}

func TestTheStateOfADriverIsOneWord(t *testing.T) {
	for want, done := range map[string]result{
		"Wanted": {choice: choice{decision: wanted}}, "Kept": {choice: choice{decision: kept}}, "Held": {thirdParty: "somebody's"},
		"Removing": {removal: removal{message: "it goes"}}, "VolumesExist": {removal: removal{waits: true, reason: volumesReason, message: "it waits"}},
	} {
		if got := done.state(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if held := (&result{removingOLM: true, removal: removal{message: "it goes"}}); held.state() != "Held" {
		t.Errorf("%s while an operator of OLM is removed", held.state())
	}
}
