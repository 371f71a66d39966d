package sharedvolume

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/fair"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const (
	pvcWrite    = "create PersistentVolumeClaim ns/pvc-sv1"
	volumeWrite = "create PersistentVolume pv-ns-sv1"
	volumeDrop  = "delete PersistentVolume pv-ns-sv1"
	svStatus    = "apply status SharedVolume ns/sv1"
)

func quota() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "pvc-sv1", textError("exceeded quota: few"))
}

// ready is the condition that was written last, as "Reason: message".
func readyOf(t *testing.T, w *working) string {
	t.Helper()
	if sv := canned.Written[v1alpha1.SharedVolume](t, w.cached.Cluster, svStatus); sv != nil {
		return conditionTexts(sv.Status.Conditions)["Ready"]
	}
	return ""
}

// A quota counts PVCs, and is to bound volumes as well: the volume is made after the PVC.
func TestNoVolumeIsMadeForAPVCThatIsRefused(t *testing.T) {
	w := newWorking(t, owner("ns", "sv1"))
	w.cached.Refuse(quota(), pvcWrite)
	result, err := lookAt(t, w)
	if err != nil || result.RequeueAfter != fair.FirstPause {
		t.Errorf("again in %s, error %v", result.RequeueAfter, err)
	}
	if diff := cmp.Diff([]string{pvcWrite, svStatus}, w.cached.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	const told = "False QuotaExceeded: create PVC pvc-sv1: persistentvolumeclaims \"pvc-sv1\" is forbidden: exceeded quota: few: delete unused PVCs, " +
		"or ask for a larger quota; the size of 1Gi is only nominal"
	if diff := cmp.Diff(told, readyOf(t, w)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// What wakes it in between may be what was missing: it is tried at most once a second then, and the pause goes on.
func TestASharedVolumeThatFailsIsTriedLessAndLess(t *testing.T) {
	w, now := newWorking(t, owner("ns", "sv1")), began
	w.Now = func() time.Time { return now }
	w.cached.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, "x", textError("no")), "create")
	look := func(want time.Duration) (tries int) {
		t.Helper()
		w.cached.Writes, w.cached.Bodies = nil, nil
		result, err := lookAt(t, w)
		if err != nil || result.RequeueAfter != want {
			t.Errorf("after %s: again in %s, want %s, error %v", now.Sub(began), result.RequeueAfter, want, err)
		}
		for _, write := range w.cached.Writes {
			if write == pvcWrite {
				tries++
			}
		}
		return tries
	}
	if look(fair.FirstPause) != 1 {
		t.Error("it is not tried")
	}
	for _, after := range []time.Duration{lag / 2, lag, 3 * lag / 2, 2 * lag, fair.FirstPause - 1} {
		now = began.Add(after)
		again, tries := began.Add(fair.FirstPause).Sub(now), 1
		if after%lag == lag/2 {
			again, tries = lag, 0
		}
		if got := look(again); got != tries {
			t.Errorf("after %s: %d tries, want %d", after, got, tries)
		}
	}
	now = began.Add(time.Hour)
	if look(2*fair.FirstPause) != 1 {
		t.Error("it is not tried once more")
	}
}

func TestWhatIsRememberedOfASharedVolumeGoesWithIt(t *testing.T) {
	w := newWorking(t)
	key := client.ObjectKey{Namespace: "ns", Name: "sv1"}
	w.made.Store(made{key, createVolume}, began)
	w.made.Store(made{key, createPVC}, began)
	w.made.Store(made{key, nudgePVC}, began)
	w.ignored.Store(key, "a/b")
	w.metrics.observe(withStatus(v1alpha1.Ready))
	w.pacer.Failed(key, "Refused", began)
	if result, err := lookAt(t, w); err != nil || result != (ctrl.Result{}) || len(w.cached.Writes) > 0 {
		t.Errorf("%+v, error %v, writes %v", result, err, w.cached.Writes)
	}
	_, left := w.ignored.Load(key)
	if !w.madeAt(owner("ns", "sv1"), createVolume).IsZero() || !w.madeAt(owner("ns", "sv1"), createPVC).IsZero() ||
		!w.madeAt(owner("ns", "sv1"), nudgePVC).IsZero() || left {
		t.Error("what was made or told for it is remembered for the next one of its name")
	}
	if !w.pacer.May(key, "Refused", true, began) {
		t.Error("the next one of its name waits for what this one did")
	}
	for name, value := range canned.Metrics(t, w.registry) {
		if value != 0 {
			t.Errorf("%s is %v", name, value)
		}
	}
}

func TestAReadThatFailsEndsALookAndNamesTheObject(t *testing.T) {
	for request, want := range map[string]string{
		"get SharedVolume":             "read *v1alpha1.SharedVolume ns/sv1: no answer",
		"get PersistentVolume":         "read *v1.PersistentVolume /pv-ns-sv1: no answer",
		"get PersistentVolumeClaim":    "read *v1.PersistentVolumeClaim ns/pvc-sv1: no answer",
		"get CSIDriver":                "read *v1.CSIDriver /efs.csi.aws.com: no answer",
		"get CustomResourceDefinition": "read *unstructured.Unstructured /" + crdName + ": no answer",
		"get Namespace":                "read *v1.PartialObjectMetadata /ns: no answer",
		"get ClusterCSIDriver":         "read *v1.ClusterCSIDriver /efs.csi.aws.com: no answer",
	} {
		w := newWorking(t, boundPair(owner("ns", "sv1"), nil)...)
		if request == "get PersistentVolume" {
			request = "get PersistentVolume pv-ns-sv1"
		}
		if request == "get ClusterCSIDriver" {
			w.cached.Objects[len(w.cached.Objects)-1] = namespace("ns", nil)
		}
		w.cached.Refuse(textError("no answer"), request)
		if result, err := lookAt(t, w); err == nil || err.Error() != want || result != (ctrl.Result{}) || len(w.cached.Writes) > 0 {
			t.Errorf("%s: %+v, error %v, want %s; writes %v", request, result, err, want, w.cached.Writes)
		}
	}
	w := newWorking(t, owner("ns", "sv1"))
	w.Others = Others{Community: &neighbour{err: textError("no answer")}, Namesake: &neighbour{}}
	if _, err := lookAt(t, w); err == nil || !strings.Contains(err.Error(), "no answer") || len(w.cached.Writes)+len(w.events.Said) > 0 {
		t.Errorf("nobody knows who else works: error %v, writes %v", err, w.cached.Writes)
	}
}

// A server that accepts every change and makes none would keep a worker for ever.
func TestALookHasAnEnd(t *testing.T) {
	sv := owner("ns", "sv1")
	sv.Finalizers = []string{CommunityFinalizer}
	w := newWorking(t, boundPair(sv, nil)...)
	w.Client = w.cached.Cluster
	_, err := lookAt(t, w)
	if err == nil || !strings.HasPrefix(err.Error(), "SharedVolume ns/sv1 did not settle in 12 steps, the last was ") || len(w.cached.Writes) != mostSteps {
		t.Errorf("error %v, writes %v", err, w.cached.Writes)
	}
}

func TestTheDeletionOfAVolumeThatFailsIsTriedAgainOrReported(t *testing.T) {
	volume := pair(owner("ns", "sv1"), func(w *seen) { w.plain.Status.Phase = corev1.VolumeReleased }).plain
	resource := schema.GroupResource{Resource: "persistentvolumes"}
	const read = "read *v1.PersistentVolume"
	for name, tc := range map[string]struct {
		request string
		// live tells that the cluster does not answer, and not the cache.
		live  bool
		err   error
		again time.Duration
		want  string
		asks  bool
	}{
		"it has gone":        {volumeDrop, false, apierrors.NewNotFound(resource, "x"), 0, "", true},
		"it has changed":     {volumeDrop, false, apierrors.NewConflict(resource, "x", textError("y")), lag, "", true},
		"it stays":           {volumeDrop, false, textError("no"), 0, "delete PersistentVolume pv-ns-sv1 of deleted SharedVolume ns/sv1: no", true},
		"nobody knows it":    {"get PersistentVolume", false, textError("no"), 0, read + " /pv-ns-sv1: no", false},
		"nobody knows whose": {"get SharedVolume", false, textError("no"), 0, "read *v1alpha1.SharedVolume ns/sv1: no", false},
		"not in the cluster": {"get SharedVolume", true, textError("no"), 0, "read *v1alpha1.SharedVolume ns/sv1: no", false},
		"nobody knows PVCs":  {"get PersistentVolumeClaim", true, textError("no"), 0, read + "Claim ns/pvc-sv1: no", false},
	} {
		t.Run(name, func(t *testing.T) {
			cached, live := newCluster(t, volume), newCluster(t)
			refusing := cached
			if tc.live {
				refusing = live
			}
			refusing.Refuse(tc.err, tc.request)
			r := &VolumeReconciler{Client: cached, Live: live, Others: alone()}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(volume)})
			if (tc.want == "") != (err == nil) || err != nil && err.Error() != tc.want || result.RequeueAfter != tc.again {
				t.Errorf("again in %s, error %v, want %s", result.RequeueAfter, err, tc.want)
			}
			var want []string
			if tc.asks {
				want = []string{volumeDrop}
			}
			if diff := cmp.Diff(want, cached.Writes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPreviewThatCannotReadIsNone(t *testing.T) {
	community := owner("ns", "sv1")
	community.Finalizers = []string{CommunityFinalizer}
	for request, want := range map[string]string{
		"get PersistentVolume":      "read *v1.PersistentVolume /pv-ns-sv1: no answer",
		"get PersistentVolumeClaim": "read *v1.PersistentVolumeClaim ns/pvc-sv1: no answer",
	} {
		c := newCluster(t, boundPair(community, nil)...)
		c.Refuse(textError("no answer"), request)
		if found, err := Preview(t.Context(), c); err == nil || err.Error() != want || found != nil {
			t.Errorf("%s: %v, error %v", request, found, err)
		}
	}
	c := newCluster(t)
	c.Refuse(&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "SharedVolume"}})
	if found, err := Preview(t.Context(), c); err != nil || len(found) > 0 {
		t.Errorf("where nobody knows the kind: %v, error %v", found, err)
	}
}

// What our own writes have changed must not be changed or told once more.
func TestALookWaitsForACacheThatIsBehind(t *testing.T) {
	sv := owner("ns", "sv1")
	sv.ResourceVersion = "5"
	w := newWorking(t, sv)
	newer := sv.DeepCopy()
	newer.ResourceVersion = "7"
	w.writer.Wrote(newer)
	if result, err := lookAt(t, w); err != nil || result.RequeueAfter == 0 || len(w.cached.Writes) > 0 || len(w.cached.Reads) != 1 {
		t.Errorf("again in %s, error %v, writes %v, reads %v", result.RequeueAfter, err, w.cached.Writes, w.cached.Reads)
	}
	w = newWorking(t, owner("ns", "sv1"))
	w.made.Store(made{client.ObjectKey{Namespace: "ns", Name: "sv1"}, createPVC}, began.Add(-lag/2))
	if result, err := lookAt(t, w); err != nil || result.RequeueAfter != lag || len(w.cached.Writes) > 0 {
		t.Errorf("made just before: again in %s, error %v, writes %v", result.RequeueAfter, err, w.cached.Writes)
	}
}

// The cache may show the PVC as it was before for a moment.
func TestAPVCIsToldItsVolumeOnce(t *testing.T) {
	w := newWorking(t, boundPair(owner("ns", "sv1"), func(w *seen) {
		w.pvc.Status.Phase, w.plain.Status.Phase = corev1.ClaimPending, corev1.VolumeBound
	})...)
	for range 2 {
		if _, err := lookAt(t, w); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"patch PersistentVolumeClaim ns/pvc-sv1"}, w.cached.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if result, err := lookAt(t, w); err != nil || result.RequeueAfter != lag {
		t.Errorf("again in %s, error %v", result.RequeueAfter, err)
	}
}

// A volume of ours that has lost its label is found, and one of somebody else is not taken.
func TestWhatExistsAlreadyIsReadFromTheCluster(t *testing.T) {
	sv := owner("ns", "sv1")
	name := uniqueVolumeName("ns", "sv1", string(sv.UID))
	bare := newVolume(sv, name, "uid-of-pvc")
	bare.Labels = nil
	for whose, tc := range map[string]struct {
		live client.Object
		want string
	}{
		"ours":            {bare, "patch PersistentVolume " + name},
		"somebody else's": {&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}, svStatus},
	} {
		w := newWorking(t, sv)
		pvc := newPVC(sv, name)
		pvc.UID, pvc.Status.Phase = "uid-of-pvc", corev1.ClaimPending
		w.live.Objects = append(w.live.Objects, tc.live, pvc)
		w.cached.Refuse(apierrors.NewAlreadyExists(schema.GroupResource{Resource: "persistentvolumes"}, name), "create PersistentVolume "+name)
		if _, err := lookAt(t, w); err != nil {
			t.Errorf("%s: %v", whose, err)
		}
		if diff := cmp.Diff([]string{pvcWrite, "create PersistentVolume " + name, tc.want}, w.cached.Writes); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", whose, diff)
		}
	}
}

func TestTheWaitForAFileSystemEndsAfterAMinute(t *testing.T) {
	sv := owner("ns", "sv1")
	sv.CreationTimestamp = metav1.NewTime(began)
	w, now := newWorking(t, sv), began
	w.Now = func() time.Time { return now }
	w.Shares = &shares{Placement: efs.Placement{Known: true, Reason: efs.ReasonFileSystemNotFound, Message: "not there"}}
	for _, want := range []time.Duration{fair.FirstPause, listing - fair.FirstPause} {
		result, err := lookAt(t, w)
		if err != nil || result.RequeueAfter != want {
			t.Errorf("after %s: again in %s, want %s, error %v", now.Sub(began), result.RequeueAfter, want, err)
		}
		now = now.Add(result.RequeueAfter)
	}
	if _, err := lookAt(t, w); err != nil || !slices.Contains(w.cached.Writes, pvcWrite) {
		t.Errorf("after a minute: %v, wrote %q", err, w.cached.Writes)
	}
}

// Whoever makes an access point and a SharedVolume together need not wait for the next poll.
func TestAnAccessPointThatComesLateIsLookedForAfterAMinute(t *testing.T) {
	sv := owner("ns", "sv1")
	for age, want := range map[time.Duration]time.Duration{0: listing, 20 * time.Second: 40 * time.Second, listing: 0, -time.Hour: listing} {
		w := pair(sv, nil)
		w.placement = efs.Placement{Known: true, Reason: efs.ReasonAccessPointNotFound, Message: "not there"}
		w.now = sv.CreationTimestamp.Add(age)
		if got := next(sv, w); got.phase != v1alpha1.Ready || got.retry != want {
			t.Errorf("at the age of %s: %s, again in %s, want %s", age, got.phase, got.retry, want)
		}
	}
}
