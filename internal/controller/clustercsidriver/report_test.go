package clustercsidriver

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

func TestAVersionIsReportedOnceAllIsRolledOut(t *testing.T) {
	const before, now = "1.0.0", "1.2.3"
	for name, tc := range map[string]struct {
		change func(o *outcome)
		want   string
	}{
		"all is rolled out":   {func(*outcome) {}, now},
		"nothing was applied": {func(o *outcome) { o.changes = nil }, before},
		"an object failed": {func(o *outcome) {
			o.changes = append(o.changes, failed("Role", here, "r", errors.New("no")))
		}, before},
		"an object is being deleted": {func(o *outcome) { o.changes = append(o.changes, changed(apply.Terminating, "Role", here, "r")) }, before},
		"an error beside":            {func(o *outcome) { o.err = errors.New("no") }, before},
		"a roll-out goes on":         {func(o *outcome) { o.seen.live.daemonSet.Status.UpdatedNumberScheduled = 2 }, before},
		"a template returns": {func(o *outcome) {
			o.seen.live.deployment.Status.UpdatedReplicas = 0
			o.seen.live.deployment.Status.Conditions = []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
			}}
		}, before},
		"no pod is available": {func(o *outcome) { o.seen.live.deployment.Status.AvailableReplicas = 0 }, before},
		"a workload is held":  {func(o *outcome) { o.seen.holds = driver.Holds{driver.Node: "wait"} }, before},
		"an object is somebody else's": {func(o *outcome) {
			o.changes = append(o.changes, changed(apply.LeftAlone, "StorageClass", "", "disk-sc"))
		}, now},
		"a migration goes on": {func(o *outcome) { o.moved = migration.Moved{Message: "2 nodes", Serving: 1} }, before},
		"it is being removed": {func(o *outcome) { o.removal = removal{removing: true} }, before},
		"it is removed":       {func(o *outcome) { o.removal = removal{removed: true} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrip(t, disk()).reporter
			cr, result := healthy()
			cr.Status.Version = before
			tc.change(&result)
			if got, _ := r.status(cr, result); got.Version != tc.want {
				t.Errorf("version %s, want %s", got.Version, tc.want)
			}
		})
	}
}

// What a roll-out says is another thing in a moment. A sum that changes, or another spec, is reported at once.
func TestARollOutThatChangesNoSumIsReportedNowAndThen(t *testing.T) {
	updated := func(pods int32) func(o *outcome) {
		return func(o *outcome) {
			set := o.seen.live.daemonSet
			set.Generation, set.Status.ObservedGeneration, set.Status.UpdatedNumberScheduled = 2, 2, pods
		}
	}
	rolling, further := updated(1), updated(2)
	for name, tc := range map[string]struct {
		before, after func(o *outcome)
		change        func(cr *operatorv1.ClusterCSIDriver)
		late          bool
	}{
		"it goes on":                     {before: rolling, after: further, late: true},
		"it begins":                      {before: func(*outcome) {}, after: rolling},
		"it ends":                        {before: rolling, after: func(*outcome) {}},
		"the credentials come before it": {before: func(o *outcome) { o.seen.holds = driver.Holds{driver.Node: "wait"} }, after: rolling, late: true},
		"it is paused":                   {before: rolling, after: func(o *outcome) { o.rolled = nodes.Progress{Message: "1 of 3", Reason: nodes.Paused} }},
		"the spec is another":            {before: rolling, after: further, change: func(cr *operatorv1.ClusterCSIDriver) { cr.Generation++ }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTrip(t, disk())
			report := func(cr *operatorv1.ClusterCSIDriver, change func(o *outcome)) (time.Duration, int) {
				_, result := healthy()
				change(&result)
				wait, err := s.reporter.report(t.Context(), cr, result)
				if err != nil {
					t.Fatal(err)
				}
				return wait, len(s.cluster.Sent())
			}
			cr, _ := healthy()
			report(cr, tc.before)
			cr.Status.OperatorStatus = *s.written(t)
			s.now = s.now.Add(10 * time.Second)
			if tc.change != nil {
				tc.change(cr)
			}
			if wait, writes := report(cr, tc.after); (writes == 1) != tc.late || tc.late && wait != 20*time.Second {
				t.Errorf("%d writes, looks again in %s", writes, wait)
			}
			s.now = s.now.Add(20 * time.Second)
			if _, writes := report(cr, tc.after); tc.late && writes != 2 {
				t.Errorf("later, %d writes", writes)
			}
		})
	}
}

func TestTheStatusCountsPodsAndRemembersTheRollOut(t *testing.T) {
	r := newTrip(t, disk()).reporter
	cr, result := healthy()
	got, _ := r.status(cr, result)
	got.Conditions = nil
	want := operatorv1.OperatorStatus{
		ObservedGeneration: 7, Version: "1.2.3", ReadyReplicas: 2,
		Generations: []operatorv1.GenerationStatus{{
			Group: "apps", Resource: "daemonsets", Namespace: here, Name: "disk-node", LastGeneration: 1, Hash: "daemonset-1",
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	result.seen.live.daemonSet.Status.UpdatedNumberScheduled = 0
	result.seen.live.deployment = nil
	if got, _ = r.status(cr, result); got.ReadyReplicas != 0 || got.Generations != nil {
		t.Errorf("before the first roll-out: %d pods, %v", got.ReadyReplicas, got.Generations)
	}
	cr.Status.Generations = generations("disk-node", "daemonset-1")
	if got, _ = r.status(cr, result); len(got.Generations) != 1 {
		t.Error("a later roll-out forgets the one before")
	}
}

// What others have written is not compared, or each report would be written again.
func TestOnlyWhatThisOperatorWritesIsCompared(t *testing.T) {
	r := newTrip(t, disk()).reporter
	conditions := func(kinds ...string) []operatorv1.OperatorCondition {
		var all []operatorv1.OperatorCondition
		for _, kind := range kinds {
			all = append(all, status.Condition(kind, true, "", ""))
		}
		return all
	}
	own := []string{
		"Available", "Progressing", "Degraded", "Upgradeable", "ManagementStateDegraded", "ConfigObservationDegraded",
		"DiskDriverControlPlaneStaticResourcesControllerDegraded", "DiskDriverGuestStaticResourcesControllerDegraded",
		"DiskDriverControllerServiceControllerAvailable", "DiskDriverNodeServiceControllerProgressing",
		"DiskCredentialsControllerAvailable", "DiskNodeCredentialsControllerDegraded",
	}
	others := []string{"DiskOldControllerDegraded", "SomebodyElseAvailable", "DiskDriverNodeServiceControllerOther", "NotAvailableAtAll"}
	have := operatorv1.OperatorStatus{
		Version: "1", Conditions: conditions(append(slices.Clone(others), own...)...),
		Generations: append(generations("other", "x"), generations("disk-node", "y")...),
	}
	got := r.own(have)
	want := operatorv1.OperatorStatus{Version: "1", Conditions: conditions(own...), Generations: generations("disk-node", "y")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(have.Conditions) != len(own)+len(others) {
		t.Error("the status that was read is changed")
	}
	elsewhere := generations("disk-node", "y")
	elsewhere[0].Namespace = "elsewhere"
	if got := r.own(operatorv1.OperatorStatus{Generations: elsewhere}); got.Generations != nil {
		t.Errorf("a DaemonSet of another namespace is ours: %v", got.Generations)
	}
}

func TestConditionsOfPredecessorsAreStale(t *testing.T) {
	r := newTrip(t, disk()).reporter
	for kind, want := range map[string]bool{"DiskOldControllerDegraded": true, "Degraded": false, "SomebodyElseDegraded": false} {
		if got := r.isStale(operatorv1.OperatorCondition{Type: kind}); got != want {
			t.Errorf("%s is stale: %t", kind, got)
		}
	}
}

func TestAReportIsWrittenOnce(t *testing.T) {
	trip := newTrip(t, disk())
	cr, result := healthy()
	if again, err := trip.reporter.report(t.Context(), cr, result); err != nil || again != 0 {
		t.Fatalf("looks again in %s, %v", again, err)
	}
	first := trip.written(t)
	if first == nil || len(first.Conditions) != 20 || first.Conditions[0].LastTransitionTime.UTC() != began {
		t.Fatalf("written: %+v", first)
	}
	cr.Status.OperatorStatus = *first
	trip.now = trip.now.Add(time.Hour)
	if _, err := trip.reporter.report(t.Context(), cr, result); err != nil || len(trip.cluster.Writes) != 1 {
		t.Errorf("the second time: %v, %v", trip.cluster.Sent(), err)
	}
	result.seen.live.deployment.Status.AvailableReplicas = 0
	if _, err := trip.reporter.report(t.Context(), cr, result); err != nil {
		t.Fatal(err)
	}
	for _, condition := range trip.written(t).Conditions {
		since := began
		if condition.Type == "Available" || strings.HasSuffix(condition.Type, "ControllerServiceControllerAvailable") ||
			condition.Type == "Progressing" || strings.HasSuffix(condition.Type, "ControllerServiceControllerProgressing") {
			since = trip.now
		}
		if got := condition.LastTransitionTime.UTC(); got != since {
			t.Errorf("%s is so since %s, want %s", condition.Type, got, since)
		}
	}
}

// Two that write the same conditions would do so in turns for ever.
func TestWhoSharesAStatusWritesTheSumsOnly(t *testing.T) {
	for name, share := range map[string]func(o *outcome){
		"while the other one is in the way": func(o *outcome) { o.seen.migration.SharesStatus = true },
		"in a removal":                      func(o *outcome) { o.removal.sharesStatus = true },
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk())
			cr, result := healthy()
			cr.Status.Conditions = []operatorv1.OperatorCondition{status.Condition("DiskOldControllerDegraded", true, "", "")}
			share(&result)
			if _, err := trip.reporter.report(t.Context(), cr, result); err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, condition := range trip.written(t).Conditions {
				kinds = append(kinds, condition.Type)
			}
			if diff := cmp.Diff([]string{"Available", "Degraded", "Progressing", "Upgradeable"}, kinds); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if trip.written(t).Generations != nil {
				t.Error("generations are written")
			}
			if len(trip.cluster.Writes) != 1 {
				t.Errorf("conditions of the other are dropped: %v", trip.cluster.Sent())
			}
		})
	}
}

// The next operator must know it, should this one be killed.
func TestTheBeginningOfARemovalIsWrittenAtOnce(t *testing.T) {
	trip := newTrip(t, disk())
	cr, result := healthy()
	if _, err := trip.reporter.report(t.Context(), cr, result); err != nil {
		t.Fatal(err)
	}
	cr.Status.OperatorStatus = *trip.written(t)
	result.seen.holds = driver.Holds{driver.Controller: "wait"}
	if again, err := trip.reporter.report(t.Context(), cr, result); err != nil || again != time.Second || len(trip.cluster.Writes) != 1 {
		t.Errorf("anything else waits: looks again in %s, sent %d, %v", again, len(trip.cluster.Writes), err)
	}
	result.removal = removal{removing: true, waiting: "for pods"}
	if _, err := trip.reporter.report(t.Context(), cr, result); err != nil || len(trip.cluster.Writes) != 2 {
		t.Errorf("the removal waits: %v, %v", trip.cluster.Sent(), err)
	}
	cr.Status.OperatorStatus = *trip.written(t)
	result.removal.waiting = "for others"
	if _, err := trip.reporter.report(t.Context(), cr, result); err != nil || len(trip.cluster.Writes) != 2 {
		t.Errorf("a removal that goes on does not wait: %v, %v", trip.cluster.Sent(), err)
	}
}

// An event whose report is not written yet would come twice.
func TestEventsFollowTheReport(t *testing.T) {
	trip := newTrip(t, disk())
	cr, result := healthy()
	trip.cluster.Refuse(errors.New("no"), statusWrite)
	result.changes = append(result.changes, changed(apply.Created, "Role", here, "r"))
	if _, err := trip.reporter.report(t.Context(), cr, result); err == nil || trip.events.Said != nil {
		t.Fatalf("said %v, %v", trip.events.Said, err)
	}
	trip.cluster.Fail = nil
	cr.Status.Conditions = []operatorv1.OperatorCondition{status.Condition("Available", true, "", "")}
	result.changes = nil
	if _, err := trip.reporter.report(t.Context(), cr, result); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Normal ObjectsCreated (Role r): created: Role storage-system/r"}, trip.events.Said); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if trip.reporter.done != nil {
		t.Errorf("is told once more: %v", trip.reporter.done)
	}
}

// The life of a ClusterCSIDriver leaves nothing to the next one.
func TestWhatFailedBeforeIsForgotten(t *testing.T) {
	trip := newTrip(t, disk())
	cr, result := healthy()
	result.err = errors.New("no")
	trip.reporter.conditions(cr, result)
	trip.now = trip.now.Add(status.FailureWindow)
	trip.reporter.reset()
	all, _, _ := trip.reporter.conditions(cr, result)
	if got := texts(all)["ConfigObservationDegraded"]; got != "False Retrying: no" {
		t.Error(got)
	}
}
