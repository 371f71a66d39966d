package clustercsidriver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// In this cluster every way ends early: to install fails at the Infrastructure, which is missing, and a removal is complete.
func TestTheManagementStateSaysWhatIsDone(t *testing.T) {
	const install, remove, look = "the trip begins", "it is removed", "nothing is touched"
	for name, tc := range map[string]struct {
		state       operatorv1.ManagementState
		deleted     bool
		unremovable bool
		byState     bool
		notWanted   string
		want        string
	}{
		"managed":                       {state: operatorv1.Managed, want: install},
		"no state":                      {state: "", want: install},
		"unmanaged":                     {state: operatorv1.Unmanaged, want: look},
		"unknown":                       {state: "Off", want: look},
		"removed":                       {state: operatorv1.Removed, want: remove},
		"managed and deleted":           {state: operatorv1.Managed, deleted: true, want: remove},
		"unmanaged and deleted":         {state: operatorv1.Unmanaged, deleted: true, want: remove},
		"unknown and deleted":           {state: "Off", deleted: true, want: remove},
		"managed, part of the cluster":  {state: operatorv1.Managed, unremovable: true, want: install},
		"removed, part of the cluster":  {state: operatorv1.Removed, unremovable: true, want: look},
		"deleted, part of the cluster":  {state: operatorv1.Managed, deleted: true, unremovable: true, want: look},
		"removed, by state":             {state: operatorv1.Removed, unremovable: true, byState: true, want: remove},
		"managed, by state":             {state: operatorv1.Managed, unremovable: true, byState: true, want: install},
		"deleted, by state":             {state: operatorv1.Managed, deleted: true, unremovable: true, byState: true, want: look},
		"removed and deleted, by state": {state: operatorv1.Removed, deleted: true, unremovable: true, byState: true, want: remove},
		"not wanted":                    {state: operatorv1.Managed, unremovable: true, notWanted: "GCP", want: remove},
		"not wanted, and removed":       {state: operatorv1.Removed, unremovable: true, notWanted: "GCP", want: remove},
		"not wanted, and unmanaged":     {state: operatorv1.Unmanaged, unremovable: true, notWanted: "GCP", want: look},
		"not wanted, on this platform":  {state: operatorv1.Managed, unremovable: true, notWanted: "AWS", want: install},
		"not wanted, and removable":     {state: operatorv1.Managed, notWanted: "GCP", want: install},
		"not wanted, but being deleted": {state: operatorv1.Managed, deleted: true, unremovable: true, notWanted: "GCP", want: look},
	} {
		t.Run(name, func(t *testing.T) {
			d := disk()
			d.Removable, d.RemovedByState = !tc.unremovable, tc.byState
			var objects []client.Object
			if tc.notWanted != "" {
				known := infrastructure()
				known.Status.PlatformStatus.Type = "GCP"
				if tc.notWanted == "AWS" {
					known.Status.PlatformStatus.Type = "AWS"
				}
				// Without a name of the cluster, to install fails all the same.
				known.Status.InfrastructureName = ""
				objects = append(objects, known)
			}
			cr, _ := healthy()
			cr.Spec.ManagementState = tc.state
			if tc.notWanted != "" {
				cr.Annotations = map[string]string{openshift.NotWantedAnnotation: tc.notWanted}
			}
			if tc.deleted {
				now := metav1.NewTime(began)
				cr.DeletionTimestamp = &now
			}
			cr.Finalizers = nil
			trip := newTrip(t, d, append(objects, cr.DeepCopy())...)
			trip.cluster.Refuse(errors.New("refused"), "apply")
			result := trip.act(t.Context(), cr)
			// A driver that can be removed gets a finalizer first, which this cluster refuses.
			got := look
			switch {
			case result.removal.removed:
				got = remove
			case result.err != nil && strings.HasPrefix(result.err.Error(), "add finalizer"):
				got = install
			case result.err != nil && tc.unremovable && cr.DeletionTimestamp == nil && (tc.state == operatorv1.Managed || tc.state == ""):
				got = install
			}
			if got != tc.want {
				t.Errorf("%s, want %s: %v", got, tc.want, result.err)
			}
			if wanted := tc.notWanted == "GCP" && tc.want == remove; result.unwanted.remove != wanted {
				t.Errorf("not wanted: %+v", result.unwanted)
			}
		})
	}
}

func TestFinishTellsTheQueueWhenToLookAgain(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "y", errors.New("z"))
	terminal := reconcile.TerminalError(errors.New("wrong flag"))
	const failure = "ClusterCSIDriver disk.example.com: "
	for name, tc := range map[string]struct {
		change func(o *outcome, s *trip)
		after  time.Duration
		err    string
	}{
		"all is well":            {func(*outcome, *trip) {}, 0, ""},
		"it is to look again":    {func(o *outcome, _ *trip) { o.again = time.Minute }, time.Minute, ""},
		"what was read wants it": {func(o *outcome, _ *trip) { o.seen.again = time.Minute }, time.Minute, ""},
		"a migration wants it":   {func(o *outcome, _ *trip) { o.moved.Again = time.Minute }, time.Minute, ""},
		"the soonest counts":     {func(o *outcome, _ *trip) { o.again, o.seen.again, o.moved.Again = time.Hour, time.Second, time.Minute }, time.Second, ""},
		"an error":               {func(o *outcome, _ *trip) { o.err = errors.New("no route") }, 0, failure + "no route"},
		"an object that failed":  {func(o *outcome, _ *trip) { o.changes = apply.ChangeSet{failed("Role", here, "r", errors.New("no"))} }, 0, failure + "Role storage-system/r: no"},
		"an object that goes": {func(o *outcome, _ *trip) {
			change := failed("Role", here, "r", errors.New("is being deleted"))
			change.Action = apply.Terminating
			o.changes = apply.ChangeSet{change}
		}, 2 * time.Minute, ""},
		"a conflict":                 {func(o *outcome, _ *trip) { o.err = fmt.Errorf("write: %w", conflict) }, time.Second, ""},
		"a conflict beside an error": {func(o *outcome, _ *trip) { o.err = errors.Join(conflict, errors.New("no")) }, 0, failure + conflict.Error() + "\nno"},
		"an error that stays":        {func(o *outcome, _ *trip) { o.err = terminal }, 0, failure + "terminal error: wrong flag"},
		"an error that stays, and something else to look at": {func(o *outcome, _ *trip) { o.err, o.again = terminal, time.Minute }, time.Minute, ""},
		"an error that stays, and no report": {func(o *outcome, s *trip) {
			o.err = terminal
			s.cluster.Refuse(errors.New("no"), statusWrite)
		}, 0, failure + "write status of ClusterCSIDriver disk.example.com: no"},
		"a write that the cache does not show": {func(_ *outcome, s *trip) {
			s.applier.Mutations.Remember(&unstructured.Unstructured{Object: map[string]any{"kind": "Role"}})
		}, apply.StaleAfter, ""},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk())
			cr, result := healthy()
			// The report itself is not waited for here.
			trip.reporter.writer.Remember = nil
			tc.change(&result, trip)
			got, err := trip.finish(t.Context(), cr, result)
			if got != (ctrl.Result{RequeueAfter: tc.after}) {
				t.Errorf("result %+v, want after %s", got, tc.after)
			}
			if text := fmt.Sprint(err); text != tc.err && (err != nil || tc.err != "") {
				t.Errorf("error %q, want %q", text, tc.err)
			}
		})
	}
}

// A lagging cache may still show it.
func TestAClusterCSIDriverThatHasGoneIsNotReportedOn(t *testing.T) {
	trip := newTrip(t, disk())
	cr, result := healthy()
	now := metav1.NewTime(began)
	cr.DeletionTimestamp, cr.Finalizers, result.removal = &now, nil, removal{removed: true}
	if _, err := trip.finish(t.Context(), cr, result); err != nil {
		t.Fatal(err)
	}
	if len(trip.cluster.Writes) > 0 || trip.removedUID != cr.UID {
		t.Errorf("sent %v, gone is %q", trip.cluster.Sent(), trip.removedUID)
	}
	if diff := cmp.Diff([]string{"Normal DriverRemoved: driver disk.example.com is removed"}, trip.events.Said); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	cr.Finalizers = []string{"other.example.com/x"}
	if _, err := trip.finish(t.Context(), cr, result); err != nil || len(trip.cluster.Writes) != 1 {
		t.Errorf("one that somebody else holds: sent %v, %v", trip.cluster.Sent(), err)
	}
}

func TestWhatIsNotAppliedForTheMoment(t *testing.T) {
	trip := newTrip(t, disk())
	objects := []client.Object{deployment(), daemonSet(), &storagev1.StorageClass{}, &storagev1.CSIDriver{}}
	for name, tc := range map[string]struct {
		state operatorv1.StorageClassStateName
		holds driver.Holds
		want  string
	}{
		"all":                         {"", nil, "Deployment DaemonSet StorageClass CSIDriver"},
		"without the controller":      {"", driver.Holds{driver.Controller: "wait"}, "DaemonSet StorageClass CSIDriver"},
		"without the node pods":       {"", driver.Holds{driver.Node: "wait"}, "Deployment StorageClass CSIDriver"},
		"without the StorageClass":    {operatorv1.UnmanagedStorageClass, nil, "Deployment DaemonSet CSIDriver"},
		"with the StorageClass":       {operatorv1.ManagedStorageClass, nil, "Deployment DaemonSet StorageClass CSIDriver"},
		"without any of them":         {operatorv1.UnmanagedStorageClass, driver.Holds{driver.Node: "a", driver.Controller: "b"}, "CSIDriver"},
		"an empty hold holds nothing": {"", driver.Holds{driver.Node: ""}, "Deployment DaemonSet StorageClass CSIDriver"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := driver.Config{}
			cfg.Spec.StorageClassState = tc.state
			var names []string
			for _, object := range trip.due(objects, cfg, tc.holds) {
				kind := fmt.Sprintf("%T", object)
				names = append(names, kind[strings.LastIndex(kind, ".")+1:])
			}
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if len(objects) != 4 || objects[3] == nil {
				t.Error("the objects that were rendered are changed")
			}
		})
	}
}

// Two copies that both say it would be one too many, and one that says it again and again as well.
func TestAnOlderCopyIsToldOfOnce(t *testing.T) {
	trip := newTrip(t, disk())
	cr, _ := healthy()
	older := deployment()
	older.Namespace, older.Name = "elsewhere", "disk-operator"
	trip.reporter.metrics.observe(disk(), nil, outcome{})
	trip.yieldTo(t.Context(), cr, older)
	trip.yieldTo(t.Context(), cr, older)
	want := []string{"Warning AnotherCopyWorks: Two copies of this operator are installed. Deployment elsewhere/disk-operator manages driver disk.example.com; the copy in namespace storage-system stays idle. Uninstall one of them"}
	if diff := cmp.Diff(want, trip.events.Said); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// The ClusterCSIDriver exists, and the other copy reports on it.
	if got := trip.gauges(t); len(got) != 0 {
		t.Errorf("metrics of a copy that waits: %v", got)
	}
	older.UID = "deployment-2"
	if trip.yieldTo(t.Context(), cr, older); len(trip.events.Said) != 2 {
		t.Errorf("one that was made anew: %v", trip.events.Said)
	}
}

func TestWithoutAClusterCSIDriverNothingIsDone(t *testing.T) {
	for name, gone := range map[string]bool{"there is none": false, "it has gone, but the cache shows it": true} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			cr, _ := healthy()
			if gone {
				objects = append(objects, cr)
			}
			trip := newTrip(t, disk(), objects...)
			var levels []operatorv1.LogLevel
			trip.Process.SetLogLevel = func(level operatorv1.LogLevel) { levels = append(levels, level) }
			trip.removedUID, trip.inUse.message = cr.UID, "before"
			result, err := trip.Reconcile(t.Context(), trip.request())
			if err != nil || result != (ctrl.Result{}) || len(trip.cluster.Writes) > 0 || trip.events.Said != nil {
				t.Errorf("%+v, %v, sent %v, said %v", result, err, trip.cluster.Sent(), trip.events.Said)
			}
			if !slices.Equal(levels, []operatorv1.LogLevel{""}) || trip.inUse.message != "" {
				t.Errorf("log levels %q, it remembers %q", levels, trip.inUse.message)
			}
			if diff := cmp.Diff(map[string]float64{"csi_operator_clustercsidriver_exists": 0}, trip.gauges(t)); diff != "" {
				t.Errorf("metrics -want +got:\n%s", diff)
			}
		})
	}
}

func TestAnUnmanagedDriverIsReportedOnAndNotTouched(t *testing.T) {
	cr, _ := healthy()
	cr.Spec.ManagementState, cr.Spec.OperatorLogLevel, cr.Finalizers = operatorv1.Unmanaged, operatorv1.Debug, nil
	trip := newTrip(t, disk(), cr, infrastructure(), ours(deployment()), ours(daemonSet()))
	var level operatorv1.LogLevel
	trip.Process.SetLogLevel = func(to operatorv1.LogLevel) { level = to }
	if _, err := trip.Reconcile(t.Context(), trip.request()); err != nil {
		t.Fatal(err)
	}
	if len(trip.cluster.Writes) != 1 || level != operatorv1.Debug {
		t.Errorf("sent %v; logs at level %q", trip.cluster.Sent(), level)
	}
	found := texts(trip.written(t).Conditions)
	if found["ManagementStateDegraded"][:15] != "False Unmanaged" || found["ControllerAvailable"] != "True AsExpected" {
		t.Errorf("reported: %v", found)
	}
}

// What is in the way keeps all from being applied, but not from being reported.
func TestNothingIsAppliedWhileAPredecessorIsInTheWay(t *testing.T) {
	trip := newTrip(t, disk(), infrastructure())
	cr, _ := healthy()
	found := seen{migration: migration.State{Blocker: "stop it"}}
	if result := found.outcome(nil); !result.seen.migration.Blocked() || result.complete() || len(result.changes) > 0 {
		t.Errorf("outcome %+v", result)
	}
	trip.Images = nil
	if result := trip.apply(t.Context(), cr, trip.found(t)); result.err == nil || !errors.Is(result.err, reconcile.TerminalError(nil)) {
		t.Errorf("what can't be rendered is no terminal error: %v", result.err)
	}
	if len(trip.cluster.Writes) > 0 {
		t.Errorf("sent %v", trip.cluster.Sent())
	}
}

func TestAReconcileThatHangsEndsTheProcess(t *testing.T) {
	trip := newTrip(t, disk())
	end := trip.Process.watchdog.Begin(trip.now)
	if err := trip.Alive(nil); err != nil {
		t.Error(err)
	}
	trip.now = trip.now.Add(time.Hour)
	if err := trip.Alive(nil); err == nil || err.Error() != "a reconcile of disk.example.com has been running for 1h0m0s" {
		t.Error(err)
	}
	end()
	if err := trip.Alive(nil); err != nil {
		t.Error(err)
	}
}
