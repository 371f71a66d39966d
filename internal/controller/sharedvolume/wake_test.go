package sharedvolume

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func keysOf(requests []reconcile.Request) []types.NamespacedName {
	var found []types.NamespacedName
	for _, one := range requests {
		found = append(found, one.NamespacedName)
	}
	return found
}

func TestTheEndsOfAPairWakeItsSharedVolume(t *testing.T) {
	sv := owner("ns", "sv1")
	long := owner("ns", strings.Repeat("n", 253))
	unmarked := newVolume(sv, "pv-ns-sv1", "uid-of-pvc")
	unmarked.Annotations = nil
	adopted := newPVC(sv, "pv-ns-sv1")
	adopted.Name = "pvc-other"
	for name, tc := range map[string]struct {
		got  []reconcile.Request
		want []types.NamespacedName
	}{
		"its volume":                   {ofVolume(t.Context(), newVolume(sv, "pv-ns-sv1", "uid-of-pvc")), keys("ns", "sv1")},
		"a volume without annotations": {ofVolume(t.Context(), unmarked), keys("ns", "sv1")},
		"a volume of a long name":      {ofVolume(t.Context(), newVolume(long, "x", "uid-of-pvc")), keys("ns", long.Name)},
		"another volume":               {ofVolume(t.Context(), &corev1.PersistentVolume{}), nil},
		"its PVC":                      {ofPVC(t.Context(), newPVC(sv, "")), keys("ns", "sv1")},
		"a PVC of a long name":         {ofPVC(t.Context(), newPVC(long, "")), keys("ns", strings.TrimPrefix(pvcName(long.Name), "pvc-"), "ns", long.Name)},
		"a PVC with another owner":     {ofPVC(t.Context(), adopted), keys("ns", "other", "ns", "sv1")},
	} {
		if diff := cmp.Diff(tc.want, keysOf(tc.got), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestANamespaceWakesItsSharedVolumesAndAnotherOperatorsEndAll(t *testing.T) {
	sv, far := owner("ns", "sv1"), owner("far", "sv2")
	far.Spec.FileSystemID = "fs-99999999"
	w := newWorking(t, sv, far, newVolume(sv, "pv-ns-sv1", "uid-of-pvc"), newVolume(far, "pv-far-sv2", "uid-of-pvc"))
	volumes := &VolumeReconciler{Client: w.cached}
	for name, tc := range map[string]struct {
		got  func() []reconcile.Request
		want []types.NamespacedName
	}{
		"one namespace":          {func() []reconcile.Request { return w.in(t.Context(), "ns", "") }, keys("ns", "sv1")},
		"all":                    {func() []reconcile.Request { return w.in(t.Context(), "", "") }, keys("ns", "sv1", "far", "sv2")},
		"all on one file system": {func() []reconcile.Request { return w.in(t.Context(), "", "fs-99999999") }, keys("far", "sv2")},
		"nobody there":           {func() []reconcile.Request { return w.in(t.Context(), "empty", "") }, nil},
		"all volumes":            {func() []reconcile.Request { return volumes.all(t.Context(), nil) }, keys("", "pv-ns-sv1", "", "pv-far-sv2")},
	} {
		w.cached.Fail = nil
		if diff := cmp.Diff(tc.want, keysOf(tc.got()), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		w.cached.Refuse(errors.New("no answer"))
		if got := tc.got(); len(got) > 0 {
			t.Errorf("%s: woken without an answer: %v", name, got)
		}
	}
}

func annotatedNamespace(lists ...string) client.Object {
	annotations := map[string]string{"other": strings.Join(lists, "")}
	for _, list := range lists {
		annotations[AllowedAnnotation] = list
	}
	return namespace("ns", annotations)
}

func driverWith(conditions ...operatorv1.OperatorCondition) client.Object {
	cr := &operatorv1.ClusterCSIDriver{}
	cr.Status.Conditions = conditions
	return cr
}

func lackingFields(fields ...any) client.Object {
	return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"lacks": fields}}}
}

func TestWhichUpdatesWake(t *testing.T) {
	const prefix = "AWSEFS"
	open := status.Condition(prefix+conditionOpen, true, "InUseBefore", "m")
	usual := status.Condition("Available", true, "", "")
	for name, tc := range map[string]struct {
		rule          predicate.Predicate
		before, after client.Object
		want          bool
	}{
		"a list comes":              {changed(AllowedAnnotation), annotatedNamespace(), annotatedNamespace("fs-1"), true},
		"an empty list comes":       {changed(AllowedAnnotation), annotatedNamespace(), annotatedNamespace(""), true},
		"a list changes":            {changed(AllowedAnnotation), annotatedNamespace("fs-1"), annotatedNamespace("fs-2"), true},
		"a list goes":               {changed(AllowedAnnotation), annotatedNamespace("fs-1"), annotatedNamespace(), true},
		"something else changes":    {changed(UnlistedAnnotation), annotatedNamespace("fs-1"), annotatedNamespace("fs-2"), false},
		"the first list":            {listChanged(), annotatedNamespace(), annotatedNamespace("fs-1"), true},
		"no list any more":          {listChanged(), annotatedNamespace("fs-1"), annotatedNamespace(), true},
		"as many lists as before":   {listChanged(), annotatedNamespace("fs-1"), annotatedNamespace("fs-2"), false},
		"a condition of ours comes": {conditionsChanged(prefix), driverWith(usual), driverWith(usual, open), true},
		"a condition of ours goes":  {conditionsChanged(prefix), driverWith(open), driverWith(), true},
		"another condition comes":   {conditionsChanged(prefix), driverWith(open), driverWith(open, usual), false},
		"a CRD loses a field":       {crdChanged(), lackingFields(), lackingFields("conditions"), true},
		"a CRD has the same":        {crdChanged(), lackingFields("conditions"), lackingFields("conditions"), false},
		"what is no CRD":            {crdChanged(), annotatedNamespace(), annotatedNamespace(), false},
	} {
		if got := tc.rule.Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestWhichComingsAndGoingsWake(t *testing.T) {
	for name, tc := range map[string]struct {
		rule         predicate.Predicate
		object       client.Object
		comes, leave bool
	}{
		"a CSIDriver":             {changed(""), annotatedNamespace(), true, true},
		"a namespace with a list": {listChanged(), annotatedNamespace(""), true, true},
		"a namespace without one": {listChanged(), annotatedNamespace(), false, false},
		"a ClusterCSIDriver":      {conditionsChanged("AWSEFS"), driverWith(), true, true},
		"a CRD, at a start":       {crdChanged(), lackingFields("conditions"), false, true},
	} {
		comes, leave := tc.rule.Create(event.CreateEvent{Object: tc.object}), tc.rule.Delete(event.DeleteEvent{Object: tc.object})
		if comes != tc.comes || leave != tc.leave {
			t.Errorf("%s: coming %v, going %v", name, comes, leave)
		}
	}
}

func TestMetricsCountEachSharedVolumeOnce(t *testing.T) {
	w := newWorking(t)
	denied := condition(v1alpha1.ConditionAllowed, false, "NotListed", "")
	step := func(want map[string]float64, what func()) {
		t.Helper()
		what()
		all := map[string]float64{MetricNotAllowed: 0, MetricReady + " count": 0, MetricReady + " sum": 0}
		for _, phase := range []string{"Pending", "Ready", "Deleting", "Failed"} {
			all[MetricCount+" "+phase] = 0
		}
		for name, value := range want {
			all[name] = value
		}
		if diff := cmp.Diff(all, canned.Metrics(t, w.registry)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	ready := withStatus(v1alpha1.Ready)
	second := withStatus(v1alpha1.Ready, denied)
	second.Name = "sv2"
	step(nil, func() {})
	step(map[string]float64{MetricCount + " Pending": 1}, func() { w.metrics.observe(withStatus(v1alpha1.Pending)) })
	step(map[string]float64{MetricCount + " Ready": 1}, func() { w.metrics.observe(ready); w.metrics.observe(ready) })
	step(map[string]float64{MetricCount + " Ready": 2, MetricNotAllowed: 1}, func() { w.metrics.observe(second) })
	step(map[string]float64{MetricCount + " Ready": 1, MetricCount + " Failed": 1, MetricNotAllowed: 2}, func() {
		w.metrics.observe(withStatus(v1alpha1.Failed, denied))
	})
	step(map[string]float64{MetricCount + " Ready": 1, MetricNotAllowed: 1}, func() {
		w.metrics.remove(client.ObjectKeyFromObject(ready))
		w.metrics.remove(client.ObjectKeyFromObject(ready))
	})
	step(nil, func() { w.evict(client.ObjectKeyFromObject(second)) })
	if _, err := newMetrics(w.registry); err == nil || !strings.HasPrefix(err.Error(), "register metrics: ") {
		t.Errorf("registered twice: %v", err)
	}
}

func TestTheTimeUntilReadyIsTakenOnce(t *testing.T) {
	known := withStatus(v1alpha1.Pending)
	known.Status.ClaimRef.Name = "pvc-sv1"
	for name, tc := range map[string]struct {
		before     *v1alpha1.SharedVolume
		phase      v1alpha1.Phase
		age        int64
		count, sum float64
	}{
		"Ready for the first time":         {withStatus(""), v1alpha1.Ready, 7, 1, 7},
		"the API server's clock is ahead":  {withStatus(""), v1alpha1.Ready, -7, 1, 0},
		"not Ready yet":                    {withStatus(""), v1alpha1.Pending, 7, 0, 0},
		"Ready again, after it has no PVC": {known, v1alpha1.Ready, 7, 0, 0},
	} {
		w := newWorking(t)
		after := withStatus(tc.phase)
		after.CreationTimestamp = metav1.Unix(began.Unix()-tc.age, 0)
		w.metrics.observeReady(tc.before, after, began)
		if got := canned.Metrics(t, w.registry); got[MetricReady+" count"] != tc.count || got[MetricReady+" sum"] != tc.sum {
			t.Errorf("%s: %v", name, got)
		}
	}
}
