package storage

import (
	"errors"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// tripOf is a Reconciler that is ready to work on a cluster. What it sets of the program, it notes in the log.
func tripOf(t *testing.T, log *[]string, objects ...client.Object) (*Reconciler, *canned.Cluster) {
	t.Helper()
	c := newCluster(t, objects...)
	r := reconcilerOf(c, entries()...)
	r.Scope.Entries = nil
	r.SetLogLevel = func(level operatorv1.LogLevel) { *log = append(*log, "level "+string(level)) }
	r.Restart = func(why string) { *log = append(*log, "restart: "+why) }
	reporterOf(t, r)
	return r, c
}

func storageOf(state operatorv1.ManagementState) *operatorv1.Storage {
	made := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	made.Spec.ManagementState, made.Spec.OperatorLogLevel = state, operatorv1.Debug
	return made
}

func TestAReconcileFollowsTheStorageAndThePlatform(t *testing.T) {
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "storage"}}
	both := []string{storageStatus, operatorStatus}
	for name, tc := range map[string]struct {
		state    operatorv1.ManagementState
		platform configv1.PlatformType
		writes   []string
		log      []string
	}{
		"managed":   {"Managed", "None", both, nil},
		"unmanaged": {"Unmanaged", "AWS", []string{operatorStatus}, nil},
		"a driver without a watch": {"Managed", "AWS", nil, []string{"restart: driver plain.example is now Wanted: " +
			"the operator restarts to watch its objects"}},
		"removed, without a driver": {"Removed", "None", both, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var log []string
			r, c := tripOf(t, &log, storageOf(tc.state), operator, infrastructure(tc.platform))
			if _, err := r.Reconcile(t.Context(), request()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.writes, c.Writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(append([]string{"level Debug"}, tc.log...), log); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAReconcileThatCannotReadChangesNothingAndNamesIt(t *testing.T) {
	for kind, want := range map[string]string{
		"get Storage":          "read Storage cluster: out of order",
		"get ClusterOperator":  "read ClusterOperator storage: out of order",
		"get ConfigMap":        "read ConfigMap openshift-config/selinux-conflicts: out of order",
		"get ClusterCSIDriver": "read ClusterCSIDriver plain.example: out of order",
		"list StorageClass":    "list StorageClasses: out of order",
	} {
		var log []string
		r, c := tripOf(t, &log, storageOf("Managed"), infrastructure("None"))
		c.Refuse(errors.New("out of order"), kind)
		if _, err := r.Reconcile(t.Context(), request()); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", kind, err, want)
		}
		if len(c.Writes) > 0 || len(log) > 0 {
			t.Errorf("%s: writes %v, log %v", kind, c.Writes, log)
		}
	}
}

func TestTheQueueIsToldWhatComesNext(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "y", errors.New("z"))
	lasting, passing := reconcile.TerminalError(errors.New("bad")), errors.New("late")
	failing := func(errs ...error) (all []result) {
		for _, err := range errs {
			all = append(all, result{choice: choice{entry: entries()[0]}, err: err})
		}
		return all
	}
	change := []result{{choice: choice{entry: entries()[1]}, again: time.Hour, changes: apply.ChangeSet{{
		Action: apply.Failed, Err: passing, Subject: apply.Subject{GroupVersionKind: schema.GroupVersionKind{Kind: "Secret"}, ObjectKey: client.ObjectKey{Name: "a"}},
	}}}}
	for name, tc := range map[string]struct {
		results []result
		report  error
		again   time.Duration
		want    time.Duration
		err     string
	}{
		"nothing to do":               {},
		"an hour":                     {again: time.Hour, want: time.Hour},
		"a driver that is sooner":     {results: []result{{again: time.Minute}}, again: time.Hour, want: time.Minute},
		"a conflict":                  {results: failing(conflict), again: time.Hour, want: time.Second},
		"a conflict of the report":    {report: conflict, want: time.Second},
		"a report that fails":         {report: passing, again: time.Hour, err: "late"},
		"a driver that fails":         {results: failing(passing), again: time.Hour, err: "Plain: late"},
		"an object that fails":        {results: change, err: "Gated: Secret a: late"},
		"what lasts":                  {results: failing(lasting), err: "terminal error: Plain: terminal error: bad"},
		"what lasts, beside more":     {results: failing(lasting), again: time.Hour, want: time.Hour},
		"what lasts, and what passes": {results: failing(lasting, passing), err: "Plain: late"},
		"what passes, and the report": {results: failing(passing), report: errors.New("refused"), err: "Plain: late\nrefused"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := reconcilerOf(newCluster(t)).finish(t.Context(), tc.results, tc.again, tc.report)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if diff := cmp.Diff(tc.err, said) + cmp.Diff(ctrl.Result{RequeueAfter: tc.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What the cache never shows would be believed for ever.
func TestAWriteThatTheCacheDoesNotShowIsLookedForAgain(t *testing.T) {
	r := reconcilerOf(newCluster(t))
	r.applier.Mutations.Remember(&unstructured.Unstructured{Object: map[string]any{"kind": "Any"}})
	got, err := r.finish(t.Context(), nil, time.Hour, nil)
	if err != nil || got.RequeueAfter != apply.StaleAfter {
		t.Errorf("again in %s, error %v", got.RequeueAfter, err)
	}
}

func TestAReconcileThatHangsIsNotAlive(t *testing.T) {
	r, now := reconcilerOf(newCluster(t)), at
	r.Now = func() time.Time { return now }
	if err := r.Alive(nil); err != nil {
		t.Errorf("before the first one: %v", err)
	}
	end := r.busy.Begin(now)
	now = now.Add(24 * time.Hour)
	const want = "a reconcile of the Storage has been running for 24h0m0s"
	if err := r.Alive(nil); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	end()
	if err := r.Alive(nil); err != nil {
		t.Errorf("after it: %v", err)
	}
}
