package storage

import (
	"errors"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// cleared is a cluster with the last objects of a driver, in the order in which they go, and what a step of the removal made of it.
func cleared(t *testing.T, fail string, objects ...client.Object) (done *result, writes, told []string) {
	t.Helper()
	entry := others()
	c := newCluster(t, objects...)
	c.Refuse(errors.New("out of order"), fail)
	r := reconcilerOf(c, entry)
	r.Scope.objects = map[string][]client.Object{entry.Name: started(entry.Operator)}
	w := aWorld()
	w.storage = &operatorv1.Storage{}
	w.classes = []storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: entry.Name}, {ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: entry.Name},
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Provisioner: "other.example"},
	}
	done = unneeded(entry)
	r.clear(t.Context(), w, done)
	return done, c.Writes, heard(r)
}

// remains are the objects of a driver in the order in which a removal deletes them.
func remains() []client.Object {
	entry := others()
	made := started(entry.Operator)
	return []client.Object{
		made[2],
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "drivers", Name: "node"}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: entry.Name}},
		made[1],
		&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: entry.Name}},
		made[0],
	}
}

func TestEachStepOfARemovalBeginsWhenNothingIsLeftOfTheOneBefore(t *testing.T) {
	const removed = "Normal DriverRemoved driver gated.example is removed, because the platform of the cluster is None; delete its remaining " +
		"StorageClasses: fast, slow"
	for gone, want := range []struct {
		write   string
		message string
		told    []string
	}{
		{"delete Deployment openshift-cluster-csi-drivers/gated-operator Foreground", "removing the operator of Gated: waiting for Deployment openshift-cluster-csi-drivers/gated-operator", nil},
		{"delete DaemonSet drivers/node Foreground", "removing the driver of Gated: waiting for DaemonSet drivers/node", nil},
		{"delete CSIDriver gated.example Foreground", "removing the driver of Gated: waiting for CSIDriver gated.example", nil},
		{"delete ServiceAccount openshift-cluster-csi-drivers/gated-operator Background", "removing the operator's objects of Gated: waiting for ServiceAccount openshift-cluster-csi-drivers/gated-operator", nil},
		{"delete ClusterCSIDriver gated.example Foreground", "removing the ClusterCSIDriver of Gated: waiting for ClusterCSIDriver gated.example", []string{removed}},
	} {
		t.Run(want.write, func(t *testing.T) {
			done, writes, told := cleared(t, "", remains()[gone:]...)
			if diff := cmp.Diff([]string{want.write}, writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(removal{left: 1, message: want.message}, done.removal, cmp.AllowUnexported(removal{})); diff != "" {
				t.Errorf("removal (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.told, told); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if done.again != removalInterval || len(done.changes.With(apply.Deleted)) != 1 {
				t.Errorf("again in %s, after %+v", done.again, done.changes)
			}
		})
	}
}

func TestARemovalIsCompleteThoughTheNamespaceStays(t *testing.T) {
	done, writes, told := cleared(t, "", remains()[5])
	if len(writes) > 0 || len(told) > 0 || done.removal != (removal{done: true}) {
		t.Errorf("removal %+v, writes %v, events %v", done.removal, writes, told)
	}
}

func TestARemovalWaitsForFinalizersAndSaysWhich(t *testing.T) {
	left := remains()[4]
	now := metav1.NewTime(at)
	left.SetDeletionTimestamp(&now)
	left.SetFinalizers([]string{"a.example/x", "b.example/y"})
	done, writes, told := cleared(t, "", left)
	const want = "removing the ClusterCSIDriver of Gated: waiting for ClusterCSIDriver gated.example (finalizers a.example/x, b.example/y)"
	if diff := cmp.Diff(want, done.removal.message); diff != "" || len(writes) > 0 || len(told) > 0 {
		t.Errorf("%s\nwrites %v, events %v", diff, writes, told)
	}
}

// An object that is somebody else's has the name of ours, but neither our label nor our fields.
func TestARemovalLeavesWhatSomebodyElseHasMade(t *testing.T) {
	account := remains()[3]
	account.SetLabels(nil)
	done, writes, _ := cleared(t, "", account)
	if len(writes) > 0 || !done.removal.done {
		t.Errorf("removal %+v, writes %v", done.removal, writes)
	}
}

func TestARemovalGoesNoFurtherWhenARequestFails(t *testing.T) {
	for request, want := range map[string]string{
		"get Deployment":                "Deployment openshift-cluster-csi-drivers/gated-operator: read: out of order",
		"get DaemonSet":                 "DaemonSet drivers/node: read: out of order",
		"delete DaemonSet drivers/node": "DaemonSet drivers/node: delete: out of order",
		"get CSIDriver":                 "CSIDriver gated.example: read: out of order",
		"get ClusterCSIDriver":          "ClusterCSIDriver gated.example: read: out of order",
	} {
		t.Run(request, func(t *testing.T) {
			objects := remains()[1:]
			if request == "get CSIDriver" || request == "get ClusterCSIDriver" {
				objects = nil
			}
			done, _, told := cleared(t, request, objects...)
			if err := done.changes.Err(); err == nil || err.Error() != want || len(done.changes) != 1 || done.removal.done || len(told) > 0 {
				t.Errorf("changes %+v, removal %+v, events %v", done.changes, done.removal, told)
			}
		})
	}
}

// Without the mark nothing would tell after a restart that the removal has begun.
func TestARemovalThatCannotBeMarkedDoesNotBegin(t *testing.T) {
	entry := others()
	c := newCluster(t, remains()...)
	c.Refuse(errors.New("refused"), "patch ClusterCSIDriver")
	r := reconcilerOf(c, entry)
	r.Scope.objects = map[string][]client.Object{entry.Name: started(entry.Operator)}
	done := unneeded(entry)
	done.driver = &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: entry.Name}}
	r.remove(t.Context(), aWorld(), done)
	if done.err == nil || done.err.Error() != "change ClusterCSIDriver gated.example: refused" || done.removal != (removal{}) {
		t.Errorf("error %v, removal %+v", done.err, done.removal)
	}
	if diff := cmp.Diff([]string{"patch ClusterCSIDriver gated.example"}, c.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// Its version is the administrator's affair.
func TestADriverThatIsUnmanagedDoesNotHoldUpTheClustersVersion(t *testing.T) {
	done := &result{choice: choice{entry: entries()[0]}, applied: true, driver: driver("1"), deployment: deployment(true)}
	if got, again := waitsForVersion(release(), done); got == "" || again != 0 {
		t.Errorf("one that is managed: %q, again in %s", got, again)
	}
	done.driver.Spec.ManagementState = operatorv1.Unmanaged
	if got, again := waitsForVersion(release(), done); got != "" || again != 0 || !reached(release(), done, nil) {
		t.Errorf("it waits for %q, again in %s", got, again)
	}
}
