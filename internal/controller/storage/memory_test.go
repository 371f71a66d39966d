package storage

import (
	"errors"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func mark(name string) operatorv1.GenerationStatus {
	return operatorv1.GenerationStatus{Group: "operator.openshift.io", Resource: "clustercsidrivers", Name: name, Hash: "available"}
}

// Nothing else would tell after a restart that a driver which says that it is disabled is broken.
func TestWhatWasAvailableOnceIsKnownAfterARestart(t *testing.T) {
	entry := entries()[0]
	entry.MayBeDisabled = true
	off := driver("", said("XDisabled", true, "no answer"))
	off.Name = entry.Name
	for name, tc := range map[string]struct {
		generations []operatorv1.GenerationStatus
		driver      *operatorv1.ClusterCSIDriver
		always      bool
		degraded    bool
		want        []operatorv1.GenerationStatus
	}{
		"never available":       {nil, off, false, false, nil},
		"available once":        {[]operatorv1.GenerationStatus{mark(entry.Name)}, off, false, true, []operatorv1.GenerationStatus{mark(entry.Name)}},
		"another one":           {[]operatorv1.GenerationStatus{mark("other.example")}, off, false, false, nil},
		"another program's":     {[]operatorv1.GenerationStatus{{Resource: "clustercsidrivers", Name: entry.Name, Hash: "x"}, {Resource: "deployments", Name: entry.Name, Hash: "available"}}, off, false, false, nil},
		"available now":         {nil, driver("", said("XAvailable", true, "")), false, false, []operatorv1.GenerationStatus{mark(entry.Name)}},
		"never to be disabled":  {nil, driver("", said("XAvailable", true, "")), true, false, nil},
		"its CR has gone":       {[]operatorv1.GenerationStatus{mark(entry.Name)}, nil, false, false, nil},
		"not available, but on": {nil, driver("", said("XAvailable", false, "")), false, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			one := entry
			one.MayBeDisabled = !tc.always
			c := newCluster(t)
			reporter := reporterOf(t, reconcilerOf(c, one))
			w := empty()
			w.Infrastructure = infrastructure("AWS")
			w.storage.Status.Generations = tc.generations
			w.drivers = map[string]*operatorv1.ClusterCSIDriver{}
			if tc.driver != nil {
				w.drivers[entry.Name] = tc.driver
			}
			done := result{choice: choice{entry: one, decision: wanted}, driver: tc.driver, applied: true, deployment: deployment(true)}
			if _, err := reporter.report(t.Context(), w, []choice{done.choice}, []result{done}); err != nil {
				t.Fatal(err)
			}
			made := canned.Written[operatorv1.Storage](t, c, storageStatus).Status
			if diff := cmp.Diff(tc.want, made.Generations, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("marks (-want +got):\n%s", diff)
			}
			if got := status.Find(made.Conditions, "PlainCSIDriverOperatorCRDegraded"); (got.Status == operatorv1.ConditionTrue) != tc.degraded {
				t.Errorf("it says %+v", got)
			}
			w.storage.Status = operatorv1.StorageStatus{OperatorStatus: made.OperatorStatus}
			c.Writes, c.Bodies = nil, nil
			w.clusterOperator.Status = configv1.ClusterOperatorStatus{}
			if _, err := reporter.report(t.Context(), w, []choice{done.choice}, []result{done}); err != nil || len(c.Writes) > 0 && c.Writes[0] == storageStatus {
				t.Errorf("the same is written once more: %v, error %v", c.Writes, err)
			}
		})
	}
}

func TestADriverThatIsRemovedIsForgotten(t *testing.T) {
	m := newMemory()
	m.once[entries()[0].Name] = true
	done := unneeded(entries()[0])
	done.removal.done = true
	conditions, operands, _ := m.conditions(empty(), nil, []result{*done})
	if len(m.once) > 0 || len(operands) > 0 || status.Find(conditions, "PlainCSIDriverOperatorCRAvailable") != nil {
		t.Errorf("it remembers %v, and says %s", m.once, short(conditions, ""))
	}
}

// Without a Storage there is nothing that has them.
func TestConditionsAreRememberedWhileThereIsNoStorage(t *testing.T) {
	stored, reported := []operatorv1.OperatorCondition{said("A", true, "")}, []operatorv1.OperatorCondition{said("B", true, "")}
	with, without := empty(), empty()
	with.storage.Status.Conditions, without.storage = stored, nil
	for name, tc := range map[string]struct {
		w    *seen
		last []operatorv1.OperatorCondition
		want []operatorv1.OperatorCondition
	}{
		"after a restart":              {with, nil, stored},
		"as it was reported":           {with, reported, reported},
		"after a restart, without one": {without, nil, nil},
		"without one":                  {without, reported, reported},
	} {
		m := newMemory()
		m.last = tc.last
		if diff := cmp.Diff(tc.want, m.previous(tc.w)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if others, stale := newMemory().sort(without, reported, nil); len(others)+len(stale) > 0 {
		t.Errorf("without a Storage it has %v and %v", others, stale)
	}
	var nobody memory
	nobody.recall(without)
	if nobody.once == nil {
		t.Error("nothing can be remembered")
	}
}

// Operators of others report at once what is over in a moment.
func TestWhatOthersReportDegradesTheClusterOnlyIfItLasts(t *testing.T) {
	for name, tc := range map[string]struct {
		builtin bool
		want    []string
	}{
		"of another project": {false, []string{
			"Degraded is False, AsExpected: All is well", "Degraded is True, PlainCSIDriverOperatorCR_Said: PlainCSIDriverOperatorCR: ClusterCSIDriver plain.example: X: broken",
		}},
		"ours": {true, []string{"Degraded is True, PlainCSIDriverOperatorCR_Said: PlainCSIDriverOperatorCR: ClusterCSIDriver plain.example: X: broken"}},
	} {
		t.Run(name, func(t *testing.T) {
			entry := entries()[0]
			entry.Builtin = tc.builtin
			c := newCluster(t)
			r, now := reconcilerOf(c, entry), at
			r.Now = func() time.Time { return now }
			reporter := reporterOf(t, r)
			w := empty()
			done := result{choice: choice{entry: entry, decision: wanted}, applied: true, deployment: deployment(true), driver: driver("2", said("XAvailable", true, ""), said("XDegraded", true, "broken"))}
			for i, want := range tc.want {
				again, err := reporter.report(t.Context(), w, []choice{done.choice}, []result{done})
				if diff := cmp.Diff(want, sumOf(t, c, "Degraded")); diff != "" || err != nil || (again > 0 && again <= status.FailureWindow) != (i+1 < len(tc.want)) {
					t.Errorf("again in %s, error %v (-want +got):\n%s", again, err, diff)
				}
				show(t, c, w)
				now = now.Add(status.FailureWindow)
				w.now = now
			}
		})
	}
}

func TestAllThatAReconcileDependsOnIsRead(t *testing.T) {
	entry := entryOf(t, "vpc.block.csi.ibm.io")
	ours := owned(&appsv1.Deployment{}, appsv1.SchemeGroupVersion.WithKind("Deployment"), catalogue.Namespace, entry.Operator)
	theirs := ours.DeepCopy()
	theirs.Labels = nil
	class := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: entry.Name}
	for name, tc := range map[string]struct {
		objects []client.Object
		ours    bool
	}{
		"nothing":             {nil, false},
		"our operator":        {[]client.Object{ours}, true},
		"somebody's operator": {[]client.Object{theirs}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, c, w := startable(t, "IBMCloud", append(tc.objects, class, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "any"}})...)
			if (w.deployments[entry.Operator] != nil) != tc.ours || w.csiDrivers["any"] == nil || w.attributes == nil {
				t.Errorf("it sees %+v", w)
			}
			for request, want := range map[string]string{
				"get Deployment":             "read Deployment " + r.Scope.Entries[0].Operator + ": out of order",
				"list CSIDriver":             "list CSIDrivers: out of order",
				"list VolumeAttributesClass": "list VolumeAttributesClasses: out of order",
				"get Infrastructure":         "read Infrastructure cluster: out of order",
			} {
				c.Refuse(errors.New("out of order"), request)
				if _, err := r.read(t.Context()); err == nil || err.Error() != want {
					t.Errorf("%s: error %v, want %s", request, err, want)
				}
			}
		})
	}
}

// Its storage is not to stop because of a deletion.
func TestWithoutAStorageTheDefaultsCount(t *testing.T) {
	w := release()
	if w.managementState() != operatorv1.Managed || w.logLevel() != "" {
		t.Errorf("state %q, level %q", w.managementState(), w.logLevel())
	}
	w.storage = storageOf("")
	if w.managementState() != operatorv1.Managed || w.logLevel() != operatorv1.Debug {
		t.Errorf("state %q, level %q", w.managementState(), w.logLevel())
	}
}
