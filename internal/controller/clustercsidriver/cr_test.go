package clustercsidriver

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

func TestTheClusterCSIDriverIsTheNewestThatIsKnown(t *testing.T) {
	cr, _ := healthy()
	trip := newTrip(t, disk(), cr)
	if got, err := trip.read(t.Context(), diskName); err != nil || got == nil || got.UID != "cr-1" || got.Generation != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := trip.read(t.Context(), "other"); err != nil || got != nil {
		t.Errorf("one that is absent: %+v, %v", got, err)
	}
	written := cr.DeepCopy()
	written.ResourceVersion, written.Generation = "71", 8
	written.SetGroupVersionKind(openshift.ClusterCSIDriverKind())
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(written)
	if err != nil {
		t.Fatal(err)
	}
	trip.applier.Mutations.Remember(&unstructured.Unstructured{Object: fields})
	if got, err := trip.read(t.Context(), diskName); err != nil || got.Generation != 8 {
		t.Errorf("our own write is forgotten: %+v, %v", got, err)
	}
	trip.cluster.Refuse(errors.New("no route"), "get ClusterCSIDriver "+diskName)
	if _, err := trip.read(t.Context(), diskName); err == nil || err.Error() != "read ClusterCSIDriver disk.example.com: no route" {
		t.Error(err)
	}
}

func TestAFinalizerIsOnADriverThatCanBeRemoved(t *testing.T) {
	removable, payload := disk(), disk()
	payload.Removable = false
	cr, _ := healthy()
	trip := newTrip(t, removable)
	if err := trip.addFinalizer(t.Context(), cr); err != nil {
		t.Errorf("one that has it is written once more: %v", err)
	}
	cr.Finalizers = []string{"other.example.com/x"}
	if err := trip.addFinalizer(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	want := []string{`apply ClusterCSIDriver disk.example.com {"apiVersion":"operator.openshift.io/v1","kind":"ClusterCSIDriver",` +
		`"metadata":{"finalizers":["` + removable.Finalizer() + `"],"name":"disk.example.com","uid":"cr-1"}}`}
	if diff := cmp.Diff(want, trip.cluster.Sent()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	cr.Finalizers = nil
	trip.cluster.Refuse(errors.New("no route"))
	if err := trip.addFinalizer(t.Context(), cr); err == nil || err.Error() != "add finalizer "+removable.Finalizer()+": no route" {
		t.Error(err)
	}
	trip = newTrip(t, payload)
	if err := trip.addFinalizer(t.Context(), cr); err != nil || len(trip.cluster.Writes) > 0 {
		t.Errorf("one that is part of the cluster is written: %v, %v", trip.cluster.Sent(), err)
	}
}

func TestOnlyFinalizersThatMatchAreDropped(t *testing.T) {
	const own, old, other = "disk-operator.operator.openshift.io/remove-driver", "old.example.com/driver", "other.example.com/x"
	for name, tc := range map[string]struct {
		have   []string
		legacy bool
		want   []string
	}{
		"ours and those of predecessors": {[]string{own, other, old}, false, []string{
			`patch ClusterCSIDriver disk.example.com {"metadata":{"finalizers":["` + other + `"],"resourceVersion":"70","uid":"cr-1"}}`,
		}},
		"those of predecessors": {[]string{own, old}, true, []string{
			`patch ClusterCSIDriver disk.example.com {"metadata":{"finalizers":["` + own + `"],"resourceVersion":"70","uid":"cr-1"}}`,
		}},
		"none of ours":         {[]string{other}, false, nil},
		"none of predecessors": {[]string{own, other}, true, nil},
		"none at all":          {nil, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk())
			cr, _ := healthy()
			cr.Finalizers = tc.have
			match := trip.isOurs
			if tc.legacy {
				match = trip.Driver.IsLegacy
			}
			if err := trip.dropFinalizers(t.Context(), cr, match); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, trip.cluster.Sent()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAFinalizerThatCantBeDroppedIsAnError(t *testing.T) {
	trip := newTrip(t, disk())
	trip.cluster.Refuse(errors.New("no route"), "patch ClusterCSIDriver")
	cr, _ := healthy()
	now := metav1.NewTime(began)
	cr.DeletionTimestamp = &now
	if err := trip.dropFinalizers(t.Context(), cr, trip.isOurs); err == nil || err.Error() != "drop finalizers: no route" || len(cr.Finalizers) != 1 {
		t.Errorf("%v, finalizers %v", err, cr.Finalizers)
	}
}

func TestNothingIsWrittenWhereNothingIsInherited(t *testing.T) {
	trip := newTrip(t, disk())
	cr, _ := healthy()
	if err := trip.keepInherited(t.Context(), cr, nil); err != nil || len(trip.cluster.Writes) > 0 {
		t.Errorf("%v, sent %v", err, trip.cluster.Sent())
	}
	trip.cluster.Refuse(errors.New("no route"))
	err := trip.keepInherited(t.Context(), cr, map[string]string{"A": "b"})
	if err == nil || err.Error() != "write the settings of the predecessor's controller into spec.observedConfig of ClusterCSIDriver disk.example.com: no route" || len(trip.cluster.Writes) != 1 {
		t.Errorf("what is inherited is not written: %v", err)
	}
	if len(trip.events.Said) > 0 {
		t.Errorf("said %v, and nothing is kept", trip.events.Said)
	}
}

// It is kept once, and told once.
func TestWhatIsKeptOfAPredecessorIsTold(t *testing.T) {
	cr, _ := healthy()
	trip := newTrip(t, disk(), cr)
	for range 2 {
		if err := trip.keepInherited(t.Context(), cr, map[string]string{"DELETE": "true"}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"Normal SettingsKept: this operator keeps a predecessor's settings: DELETE=true comes from the predecessor's controller. To change it, set DELETE in the operator's environment"}
	if diff := cmp.Diff(want, trip.events.Said); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
