package storage

import (
	"errors"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// The writes of the two statuses.
const (
	storageStatus  = "apply status Storage cluster"
	operatorStatus = "apply status ClusterOperator storage"
)

// empty is a cluster without a driver, and its Storage and ClusterOperator, which nobody has reported in.
func empty() *seen {
	w := release()
	w.Infrastructure = infrastructure("None")
	w.storage = &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster", UID: "s", Generation: 3}}
	w.storage.Spec.ManagementState = operatorv1.Managed
	w.clusterOperator = &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "storage", UID: "o"}}
	return w
}

// show makes the cache show what was written last.
func show(t *testing.T, c *canned.Cluster, w *seen) {
	t.Helper()
	if made := canned.Written[operatorv1.Storage](t, c, storageStatus); made != nil {
		w.storage.Status = made.Status
	}
	if made := canned.Written[configv1.ClusterOperator](t, c, operatorStatus); made != nil {
		w.clusterOperator.Status = made.Status
	}
}

func TestAReportIsWrittenOnceAndThenOnlyWhenSomethingDiffers(t *testing.T) {
	c := newCluster(t)
	r, now := reconcilerOf(c), at
	r.Now = func() time.Time { return now }
	reporter := reporterOf(t, r)
	w := empty()
	step := func(what string, pause, wait time.Duration, writes ...string) {
		t.Helper()
		now = now.Add(pause)
		c.Writes, c.Bodies = nil, nil
		w.now = now
		again, err := reporter.report(t.Context(), w, nil, nil)
		if diff := cmp.Diff(writes, c.Writes); diff != "" || err != nil || again != wait {
			t.Errorf("%s: again in %s, error %v, writes (-want +got):\n%s", what, again, err, diff)
		}
		show(t, c, w)
	}
	step("at first", 0, 0, storageStatus, operatorStatus)
	step("nothing differs", time.Millisecond, 0)
	w.conflicts = true
	step("another verdict, too soon", time.Millisecond, 998*time.Millisecond)
	step("another verdict", time.Second, 0, storageStatus, operatorStatus)
	w.Infrastructure = infrastructure("Moon")
	step("another text, too soon", time.Second, 4*time.Second)
	step("another text", 5*time.Second, 0, storageStatus, operatorStatus)
}

func TestWhatOthersReportInTheStorageIsSummedUpAndNotWritten(t *testing.T) {
	c := newCluster(t)
	reporter := reporterOf(t, reconcilerOf(c))
	reporter.cleaned = true
	w := empty()
	w.storage.Status.Conditions = []operatorv1.OperatorCondition{said("OtherDegraded", true, "it is broken")}
	if _, err := reporter.report(t.Context(), w, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, condition := range canned.Written[operatorv1.Storage](t, c, storageStatus).Status.Conditions {
		if condition.Type == "OtherDegraded" {
			t.Error("a condition of another program is written")
		}
	}
	want := "Degraded is True, Other_Said: Other: it is broken"
	if diff := cmp.Diff(want, sumOf(t, c, "Degraded")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// sumOf is what the ClusterOperator was told last of a type.
func sumOf(t *testing.T, c *canned.Cluster, kind string) string {
	t.Helper()
	for _, condition := range canned.Written[configv1.ClusterOperator](t, c, operatorStatus).Status.Conditions {
		if string(condition.Type) == kind {
			return kind + " is " + string(condition.Status) + ", " + condition.Reason + ": " + condition.Message
		}
	}
	return ""
}

// Conditions of a predecessor stay for ever if nobody drops them.
func TestStaleConditionsAreDroppedFromTheStorage(t *testing.T) {
	c := newCluster(t)
	reporter := reporterOf(t, reconcilerOf(c))
	w := empty()
	w.storage.Status.Conditions = []operatorv1.OperatorCondition{said("OldControllerDegraded", true, "left")}
	if _, err := reporter.report(t.Context(), w, nil, nil); err != nil || !reporter.cleaned {
		t.Fatalf("cleaned %v, error %v", reporter.cleaned, err)
	}
	want := []string{"patch status Storage cluster", storageStatus, operatorStatus}
	if diff := cmp.Diff(want, c.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("Degraded is False, AsExpected: All is well", sumOf(t, c, "Degraded")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAMissingStorageIsReportedInTheClusterOperator(t *testing.T) {
	c := newCluster(t)
	r, now := reconcilerOf(c), at
	r.Now = func() time.Time { return now }
	reporter := reporterOf(t, r)
	w := empty()
	w.storage = nil
	if again, err := reporter.report(t.Context(), w, nil, nil); err != nil || again == 0 {
		t.Errorf("again in %s, error %v", again, err)
	}
	if diff := cmp.Diff([]string{operatorStatus}, c.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	now = now.Add(time.Hour)
	w.now = now
	if _, err := reporter.report(t.Context(), w, nil, nil); err != nil {
		t.Fatal(err)
	}
	want := "Degraded is True, Storage_SyncError: Storage: The Storage object named cluster is missing, so the operator uses the defaults: recreate the object with spec.managementState Managed"
	if diff := cmp.Diff(want, sumOf(t, c, "Degraded")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVersionsWaitForAllDriversAndForThePlatform(t *testing.T) {
	versions := func(operator string) []configv1.OperandVersion {
		return []configv1.OperandVersion{{Name: "plain-operator", Version: "1"}, {Name: "operator", Version: operator}}
	}
	for name, tc := range map[string]struct {
		platform configv1.PlatformType
		done     result
		want     []configv1.OperandVersion
	}{
		"no driver any more":        {"None", result{removal: removal{done: true}}, []configv1.OperandVersion{{Name: "operator", Version: "2"}}},
		"a driver that is not done": {"AWS", result{}, versions("1")},
		"a driver that is removed": {"None", result{choice: choice{decision: unwanted}, removal: removal{message: "it goes"}},
			[]configv1.OperandVersion{{Name: "operator", Version: "2"}}},
		"a removal that waits":        {"None", result{choice: choice{decision: unwanted}, removal: removal{waits: true, message: "it waits"}}, versions("1")},
		"somebody else's":             {"AWS", result{thirdParty: "somebody's"}, []configv1.OperandVersion{{Name: "operator", Version: "2"}}},
		"a driver that is done":       {"AWS", result{applied: true, driver: driver("2"), deployment: deployment(true)}, []configv1.OperandVersion{{Name: "plain-operator", Version: "2"}, {Name: "operator", Version: "2"}}},
		"a platform that is not told": {"", result{removal: removal{done: true}}, []configv1.OperandVersion{{Name: "operator", Version: "1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			reporter := reporterOf(t, reconcilerOf(c, entries()...))
			w := empty()
			w.Infrastructure = infrastructure(tc.platform)
			w.clusterOperator.Status.Versions = versions("1")
			tc.done.entry = entries()[0]
			if _, err := reporter.report(t.Context(), w, nil, []result{tc.done}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, canned.Written[configv1.ClusterOperator](t, c, operatorStatus).Status.Versions); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRelatedObjectsAreWhereSomebodyHasToLook(t *testing.T) {
	entry := others()
	entry.Workloads = append(entry.Workloads, catalogue.Workload{Kind: "Deployment", Namespace: "drivers", Name: "controller"})
	binding := owned(&rbacv1.ClusterRoleBinding{}, rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), "", "binding")
	inside := owned(&rbacv1.RoleBinding{}, rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), "drivers", "inside")
	binding.RoleRef.Name, inside.RoleRef.Name = "role", "role"
	monitor := owned(&metav1.PartialObjectMetadata{}, catalogue.ServiceMonitorKind().WithVersion("v1"), "drivers", "monitor")
	scope := Scope{Kinds: map[schema.GroupKind]bool{}, objects: map[string][]client.Object{entry.Name: append(started(entry.Operator), binding, inside, monitor)}}
	head := []configv1.ObjectReference{
		{Resource: "namespaces", Name: "here"}, {Resource: "namespaces", Name: "openshift-cluster-csi-drivers"},
		{Group: "operator.openshift.io", Resource: "storages", Name: "cluster"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "cluster-storage-operator"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings", Name: "cluster-storage-operator"},
	}
	with := append(append([]configv1.ObjectReference{}, head...), []configv1.ObjectReference{
		{Group: "operator.openshift.io", Resource: "clustercsidrivers", Name: "gated.example"},
		{Resource: "namespaces", Name: "drivers"},
		{Resource: "serviceaccounts", Namespace: "openshift-cluster-csi-drivers", Name: "gated-operator"},
		{Group: "apps", Resource: "deployments", Namespace: "openshift-cluster-csi-drivers", Name: "gated-operator"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings", Name: "binding"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "role"},
		{Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Namespace: "drivers", Name: "inside"},
	}...)
	done := unneeded(entry)
	if diff := cmp.Diff(with, related("here", scope, []result{*done})); diff != "" {
		t.Errorf("of a driver (-want +got):\n%s", diff)
	}
	done.removal.done = true
	if diff := cmp.Diff(head, related("here", scope, []result{*done})); diff != "" {
		t.Errorf("without a driver (-want +got):\n%s", diff)
	}
}

func TestAMissingClusterOperatorIsMadeAndReportedIn(t *testing.T) {
	c := newCluster(t)
	reporter := reporterOf(t, reconcilerOf(c))
	w := empty()
	w.clusterOperator = nil
	if _, err := reporter.report(t.Context(), w, nil, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{storageStatus, "apply ClusterOperator storage", operatorStatus}
	if diff := cmp.Diff(want, c.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestAReportThatFailsNamesWhatWasWritten(t *testing.T) {
	for request, want := range map[string]string{
		storageStatus:                   "write status of Storage cluster: refused",
		operatorStatus:                  "write status of ClusterOperator storage: refused",
		"apply ClusterOperator storage": "create ClusterOperator storage: refused",
	} {
		c := newCluster(t)
		c.Refuse(errors.New("refused"), request)
		r := reconcilerOf(c)
		reporter := reporterOf(t, r)
		w := empty()
		if request == "apply ClusterOperator storage" {
			w.clusterOperator = nil
		}
		if _, err := reporter.report(t.Context(), w, nil, nil); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		if told := heard(r); len(told) > 0 {
			t.Errorf("%s: it tells %v", request, told)
		}
	}
}

func TestAnUnmanagedClusterKeepsItsVersionsAndForgetsItsConditions(t *testing.T) {
	c := newCluster(t)
	reporter := reporterOf(t, reconcilerOf(c))
	reporter.last = []operatorv1.OperatorCondition{said("XDegraded", true, "old")}
	w := empty()
	had := configv1.ClusterOperatorStatus{
		Versions:       []configv1.OperandVersion{{Name: "operator", Version: "1"}},
		RelatedObjects: []configv1.ObjectReference{{Resource: "namespaces", Name: "any"}},
	}
	w.clusterOperator.Status = had
	if again, err := reporter.unmanaged(t.Context(), w); err != nil || again != 0 || reporter.last != nil {
		t.Errorf("again in %s, error %v, it remembers %v", again, err, reporter.last)
	}
	got := canned.Written[configv1.ClusterOperator](t, c, operatorStatus).Status
	if diff := cmp.Diff(had.Versions, got.Versions) + cmp.Diff(had.RelatedObjects, got.RelatedObjects); diff != "" {
		t.Error(diff)
	}
	want := "Available is Unknown, Unmanaged: while spec.managementState of Storage \"cluster\" is Unmanaged, the operator changes nothing and reports nothing"
	if diff := cmp.Diff(want, sumOf(t, c, "Available")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
