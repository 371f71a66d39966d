package clustercsidriver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

func TestARemovalSaysWhatItWaitsFor(t *testing.T) {
	left := func(names ...string) apply.ChangeSet {
		var all apply.ChangeSet
		for _, name := range names {
			all = append(all, changed(apply.Deleted, "Role", here, name))
		}
		return all
	}
	held := changed(apply.Terminating, "DaemonSet", here, "disk-node")
	held.Finalizers = []string{"foregroundDeletion", "x.example.com/hold"}
	for name, tc := range map[string]struct {
		left apply.ChangeSet
		pods []string
		want string
	}{
		"objects, sorted": {left("b", "a"), nil, "waiting for the removal of Role storage-system/a, Role storage-system/b"},
		"one that is held": {
			apply.ChangeSet{held}, nil, "waiting for the removal of DaemonSet storage-system/disk-node (held by foregroundDeletion, x.example.com/hold)",
		},
		"pods": {left("a"), []string{"p on n1", "q on n2"}, "waiting for the removal of Role storage-system/a; remaining pods: p on n1, q on n2"},
		"many of them": {
			left("1", "2", "3", "4", "5", "6", "7"), []string{"a", "b", "c", "d", "e", "f"},
			"waiting for the removal of Role storage-system/1, Role storage-system/2, Role storage-system/3, Role storage-system/4, Role storage-system/5 " +
				"and 2 more; remaining pods: a, b, c, d, e and 1 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := waitingFor(tc.left, tc.pods); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestARemovalThatHasBegunGoesOn(t *testing.T) {
	labelled := daemonSet()
	labelled.Labels = ours(daemonSet()).Labels
	for name, tc := range map[string]struct {
		objects []client.Object
		change  func(cr *operatorv1.ClusterCSIDriver, s *trip)
		want    bool
	}{
		"a driver that runs":           {[]client.Object{csiDriver(), ours(daemonSet())}, nil, false},
		"nothing was installed":        {nil, nil, true},
		"all of it is somebody else's": {[]client.Object{&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName}}}, nil, true},
		"the cache does not show yet what was installed": {nil, func(_ *operatorv1.ClusterCSIDriver, s *trip) {
			s.applier.Mutations.Remember(&unstructured.Unstructured{Object: map[string]any{"kind": "Role"}})
		}, false},
		"an administrator forces it": {[]client.Object{csiDriver()}, func(cr *operatorv1.ClusterCSIDriver, _ *trip) {
			cr.Annotations = map[string]string{"operator.openshift.io/force-driver-removal": "true"}
		}, true},
		"an administrator does not force it": {[]client.Object{csiDriver()}, func(cr *operatorv1.ClusterCSIDriver, _ *trip) {
			cr.Annotations = map[string]string{"operator.openshift.io/force-driver-removal": "false"}
		}, false},
		"the status says so": {[]client.Object{csiDriver()}, func(cr *operatorv1.ClusterCSIDriver, _ *trip) {
			cr.Status.Conditions = []operatorv1.OperatorCondition{status.Condition("Progressing", true, "Removing", "")}
		}, true},
		"the status says something else": {[]client.Object{csiDriver()}, func(cr *operatorv1.ClusterCSIDriver, _ *trip) {
			cr.Status.Conditions = []operatorv1.OperatorCondition{status.Condition("Progressing", true, "VolumesInUse", "")}
		}, false},
		"the node pods are being deleted":              {[]client.Object{csiDriver(), deleted(ours(daemonSet()))}, nil, true},
		"somebody has deleted the DaemonSet":           {[]client.Object{csiDriver()}, nil, false},
		"the DaemonSet is being deleted, but not ours": {[]client.Object{csiDriver(), deleted(labelled)}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk(), tc.objects...)
			cr, _ := healthy()
			if tc.change != nil {
				tc.change(cr, trip)
			}
			if got, err := trip.hasBegun(t.Context(), cr, trip.found(t)); err != nil || got != tc.want {
				t.Errorf("it has begun: %t, %v", got, err)
			}
		})
	}
}

func TestADriverIsRemovedWhenNothingOfItIsLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		finalizers []string
		objects    []client.Object
		want       bool
	}{
		"nothing is left":                      {[]string{"other.example.com/x"}, nil, true},
		"our finalizer":                        {[]string{disk().Finalizer()}, nil, false},
		"a finalizer of a predecessor":         {[]string{"old.example.com/driver"}, nil, false},
		"an object of ours":                    {nil, []client.Object{csiDriver()}, false},
		"an object of the same name, not ours": {nil, []client.Object{&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk(), tc.objects...)
			cr, _ := healthy()
			cr.Finalizers = tc.finalizers
			if got, err := trip.alreadyRemoved(t.Context(), cr, trip.found(t)); err != nil || got != tc.want {
				t.Errorf("it is removed: %t, %v", got, err)
			}
		})
	}
}

// Their names are not known before the cluster is read, and an operator that has just started has read nothing yet.
func TestAClassThatACloudAskedForIsNotForgotten(t *testing.T) {
	trip := newTrip(t, clouded(), typed("gold"))
	cr, _ := healthy()
	cr.Finalizers = nil
	if result := trip.remove(t.Context(), cr, trip.found(t)); result.removal.removed || !slices.Contains(trip.cluster.Sent(), "delete StorageClass gold Background") {
		t.Errorf("%+v, sent %v", result.removal, trip.cluster.Sent())
	}
}

// using are a volume of the driver, and a pod that uses it.
func using() []client.Object {
	bound := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}}
	bound.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: diskName}
	bound.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data"}
	bound.Status.Phase = corev1.VolumeBound
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	return []client.Object{bound, pod}
}

const webUsesIt = "Removal is blocked: 1 pods use volumes of the driver and would hang without it: shop/web. Delete them, or set annotation operator.openshift.io/force-driver-removal=true on ClusterCSIDriver disk.example.com to remove the driver anyway"

func TestADriverThatIsUsedStays(t *testing.T) {
	trip := newTrip(t, disk(), append(using(), csiDriver(), infrastructure())...)
	cr, _ := healthy()
	// While it waits, an unmanaged driver is not kept up, so that nothing is applied.
	cr.Spec.ManagementState = operatorv1.Unmanaged
	result := trip.remove(t.Context(), cr, trip.found(t))
	if result.err != nil {
		t.Fatal(result.err)
	}
	if diff := cmp.Diff(removal{inUse: webUsesIt, blocking: 1}, result.removal, cmp.AllowUnexported(removal{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if result.again != status.LeastPause || len(trip.cluster.Writes) > 0 {
		t.Errorf("looks again in %s, sent %v", result.again, trip.cluster.Sent())
	}
	trip.now = trip.now.Add(8 * time.Minute)
	if result = trip.remove(t.Context(), cr, trip.found(t)); result.again != 2*time.Minute {
		t.Errorf("after 8 minutes it looks again in %s", result.again)
	}
	trip.cluster.Refuse(errors.New("no route"), "list PersistentVolume")
	result = trip.remove(t.Context(), cr, trip.found(t))
	if result.err == nil || result.removal.inUse != webUsesIt || result.removal.blocking != 1 {
		t.Errorf("what is not known is taken to be as it was: %+v, %v", result.removal, result.err)
	}
}

// The kubelet unmounts after the containers have ended: a driver that is removed before that leaves mounts that hang.
func TestADriverStaysUntilTheLastPodIsGone(t *testing.T) {
	objects := using()
	pod := objects[1].(*corev1.Pod)
	pod.Status.Phase = corev1.PodFailed
	pod.DeletionTimestamp, pod.Finalizers = new(metav1.NewTime(began)), []string{"example.com/unmounting"}
	trip := newTrip(t, disk(), append(objects, csiDriver(), infrastructure())...)
	cr, _ := healthy()
	cr.Spec.ManagementState = operatorv1.Unmanaged
	if result := trip.remove(t.Context(), cr, trip.found(t)); result.err != nil || result.removal.inUse != webUsesIt {
		t.Errorf("in deletion: %+v, %v", result.removal, result.err)
	}
	pod.DeletionTimestamp, pod.Finalizers = nil, nil
	trip = newTrip(t, disk(), append(objects, csiDriver(), infrastructure())...)
	if result := trip.remove(t.Context(), cr, trip.found(t)); result.err != nil || result.removal.inUse != "" {
		t.Errorf("ended: %+v, %v", result.removal, result.err)
	}
}

func TestADriverThatIsKeptForItsUsersIsReadOnce(t *testing.T) {
	for _, state := range []operatorv1.ManagementState{operatorv1.Removed, operatorv1.Unmanaged} {
		trip := newTrip(t, disk(), append(using(), csiDriver(), infrastructure())...)
		cr, _ := healthy()
		now := metav1.NewTime(began)
		cr.Spec.ManagementState, cr.DeletionTimestamp = state, &now
		if result := trip.act(t.Context(), cr); result.err != nil || result.removal.blocking != 1 {
			t.Fatalf("%s: %+v, %v", state, result.removal, result.err)
		}
		read := slices.DeleteFunc(trip.cluster.Reads, func(request string) bool { return request != "list CredentialsRequest" })
		if len(read) != 1 {
			t.Errorf("%s: reads the CredentialsRequests %d times", state, len(read))
		}
	}
}

func TestManyUsersAreCounted(t *testing.T) {
	trip := newTrip(t, disk(), infrastructure())
	cr, _ := healthy()
	cr.Spec.ManagementState = operatorv1.Unmanaged
	var users []volume.User
	for i := range 7 {
		users = append(users, volume.User{Pod: fmt.Sprintf("shop/web-%d", i)})
	}
	got := trip.blockRemoval(t.Context(), cr, trip.found(t), heldByPods(cr, users)).removal
	const want = "Removal is blocked: 7 pods use volumes of the driver and would hang without it: shop/web-0, shop/web-1, " +
		"shop/web-2, shop/web-3, shop/web-4 and 2 more. Delete them, or set annotation operator.openshift.io/force-driver-removal=true on ClusterCSIDriver disk.example.com to remove the driver anyway"
	if got.inUse != want || got.blocking != 7 {
		t.Errorf("%d: %s", got.blocking, got.inUse)
	}
}

// Workloads go first, and everything else when their pods have gone.
func TestARemovalGoesStepByStep(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: "disk-node-x"}, Spec: corev1.PodSpec{NodeName: "node-1"}}
	remove := func(objects ...client.Object) (outcome, []string) {
		trip := newTrip(t, disk(), objects...)
		trip.inUse = inUse{message: "before", count: 3}
		cr, _ := healthy()
		cr.Annotations = map[string]string{ForceRemovalAnnotation: "true"}
		result := trip.remove(t.Context(), cr, trip.found(t))
		if result.err != nil {
			t.Fatal(result.err)
		}
		if trip.inUse.message != "" {
			t.Error("what held it up before is not forgotten")
		}
		return result, trip.cluster.Sent()
	}
	result, sent := remove(csiDriver(), ours(daemonSet()), ours(deployment()), pod)
	want := removal{
		removing: true, remaining: 3,
		waiting: "waiting for the removal of DaemonSet storage-system/disk-node, Deployment storage-system/disk-controller; remaining pods: " +
			"disk-node-x on node-1",
	}
	if diff := cmp.Diff(want, result.removal, cmp.AllowUnexported(removal{})); diff != "" {
		t.Errorf("workloads -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"delete Deployment storage-system/disk-controller Foreground", "delete DaemonSet storage-system/disk-node Foreground"}, sent); diff != "" {
		t.Errorf("workloads -want +got:\n%s", diff)
	}
	if result.again != 10*time.Second {
		t.Errorf("looks again in %s", result.again)
	}
	result, sent = remove(csiDriver(), deleted(ours(daemonSet())), pod)
	want = removal{
		removing: true, remaining: 2,
		waiting: "waiting for the removal of DaemonSet storage-system/disk-node (held by foregroundDeletion); remaining pods: disk-node-x on node-1",
	}
	if diff := cmp.Diff(want, result.removal, cmp.AllowUnexported(removal{})); diff != "" || len(sent) > 0 {
		t.Errorf("the end of pods -want +got:\n%s, sent %v", diff, sent)
	}
	result, sent = remove(csiDriver())
	if diff := cmp.Diff([]string{"delete CSIDriver disk.example.com Background"}, sent); diff != "" || !result.removal.removing {
		t.Errorf("the rest -want +got:\n%s, %+v", diff, result.removal)
	}
}

// A Lease that a sidecar made has no owner. The operator that goes on after a failure must still look for it, and so it goes first.
func TestLeasesOfSidecarsGoBeforeTheRest(t *testing.T) {
	d := disk()
	d.FurtherLeases = []string{"disk-syncer"}
	lease := func(name string) client.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: name, UID: "lease-1"}}
	}
	for name, tc := range map[string]struct {
		refuse string
		want   []string
	}{
		"both go": {"", []string{"delete Lease storage-system/disk-syncer Background", "delete CSIDriver disk.example.com Background"}},
		"one that can't be deleted keeps the rest": {
			"delete Lease storage-system/disk-syncer", []string{"delete Lease storage-system/disk-syncer Background"},
		},
		"one that can't be read keeps the rest": {"get Lease storage-system/disk-syncer", nil},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, d, csiDriver(), lease("disk-syncer"), lease("of-another-driver"))
			if tc.refuse != "" {
				trip.cluster.Refuse(errors.New("no route"), tc.refuse)
			}
			cr, _ := healthy()
			cr.Annotations = map[string]string{ForceRemovalAnnotation: "true"}
			result := trip.remove(t.Context(), cr, trip.found(t))
			if diff := cmp.Diff(tc.want, trip.cluster.Sent()); diff != "" || (result.err == nil) != (tc.refuse == "") {
				t.Errorf("%v, -want +got:\n%s", result.err, diff)
			}
		})
	}
}

func TestFinalizersGoLast(t *testing.T) {
	trip := newTrip(t, disk())
	cr, _ := healthy()
	now := metav1.NewTime(began)
	cr.DeletionTimestamp = &now
	cr.Finalizers = []string{disk().Finalizer(), "old.example.com/driver"}
	result := trip.remove(t.Context(), cr, trip.found(t))
	if result.err != nil || !result.removal.removed || result.removal.removing || cr.Finalizers != nil {
		t.Errorf("%+v, %v, finalizers %v", result.removal, result.err, cr.Finalizers)
	}
	want := []string{"patch ClusterCSIDriver disk.example.com " +
		`{"metadata":{"finalizers":[],"resourceVersion":"70","uid":"cr-1"}}`}
	if diff := cmp.Diff(want, trip.cluster.Sent()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if result = trip.remove(t.Context(), cr, trip.found(t)); !result.removal.removed || len(trip.cluster.Writes) != 1 {
		t.Errorf("once more: %+v, sent %v", result.removal, trip.cluster.Sent())
	}
}

// Another operator of the same name drops its own finalizer.
func TestTheFinalizerOfANamesakeThatRunsStays(t *testing.T) {
	const old = "old.example.com/driver"
	namesake := deployment()
	namesake.Name, namesake.Namespace = "disk-operator", "other"
	for name, tc := range map[string]struct {
		objects    []client.Object
		finalizers []string
		kept       string
		shared     bool
	}{
		"it runs":                     {[]client.Object{namesake}, []string{disk().Finalizer(), old}, `["` + old + `"]`, true},
		"it runs, and left no trace":  {[]client.Object{namesake}, []string{disk().Finalizer()}, "[]", false},
		"it runs, only its own stays": {[]client.Object{namesake}, []string{old}, "", true},
		"it does not run":             {nil, []string{disk().Finalizer(), old}, "[]", false},
		"it left its own behind":      {nil, []string{old}, "[]", false},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, disk(), tc.objects...)
			trip.Migration.Predecessors = []*migration.Predecessor{{
				Predecessor: driver.Predecessor{Title: "the old operator", Operator: "disk-operator"},
				Reader:      trip.cluster, Driver: disk(), Namespace: here,
				May: func(context.Context, client.ObjectKey, authorizationv1.ResourceAttributes) (bool, error) {
					return true, nil
				},
			}}
			cr, _ := healthy()
			now := metav1.NewTime(began)
			cr.DeletionTimestamp, cr.Finalizers = &now, tc.finalizers
			result, err := trip.release(t.Context(), cr)
			if err != nil || !result.removal.removed || result.removal.sharesStatus != tc.shared {
				t.Errorf("%+v, %v", result.removal, err)
			}
			var want []string
			if tc.kept != "" {
				want = []string{`patch ClusterCSIDriver disk.example.com {"metadata":{"finalizers":` + tc.kept + `,"resourceVersion":"70","uid":"cr-1"}}`}
			}
			if diff := cmp.Diff(want, trip.cluster.Sent()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAFailureKeepsTheFinalizer(t *testing.T) {
	for what, objects := range map[string][]client.Object{
		"list PersistentVolume":          {csiDriver()},
		"list Pod":                       {csiDriver(), ours(daemonSet())},
		"get CSIDriver disk.example.com": {csiDriver()},
	} {
		t.Run(what, func(t *testing.T) {
			trip := newTrip(t, disk(), objects...)
			trip.cluster.Refuse(errors.New("no route"), what)
			cr, _ := healthy()
			cr.Spec.ManagementState = operatorv1.Removed
			if what != "list PersistentVolume" {
				cr.Annotations = map[string]string{ForceRemovalAnnotation: "true"}
			}
			result := trip.act(t.Context(), cr)
			if result.err == nil && len(result.changes.With(apply.Failed)) == 0 || result.removal.removed {
				t.Errorf("%+v, %v", result.removal, result.err)
			}
			for _, sent := range trip.cluster.Sent() {
				if sent[:5] == "patch" {
					t.Errorf("sent %s", sent)
				}
			}
		})
	}
}
