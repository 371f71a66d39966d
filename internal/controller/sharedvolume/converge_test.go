package sharedvolume

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

func boundPair(sv *v1alpha1.SharedVolume, change func(*seen)) []client.Object {
	w := pair(sv, change)
	found := []client.Object{sv, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: efs.DriverName}}}
	if w.plain != nil {
		found = append(found, w.plain)
	}
	if w.pvc != nil {
		found = append(found, w.pvc)
	}
	return found
}

func lookAt(t *testing.T, w *working) (ctrl.Result, error) {
	t.Helper()
	return w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "sv1"}})
}

func TestOneLookTakesAllSteps(t *testing.T) {
	now := metav1.NewTime(began)
	community := owner("ns", "sv1")
	community.Finalizers = []string{CommunityFinalizer}
	const write = "apply status SharedVolume ns/sv1"
	for name, tc := range map[string]struct {
		objects []client.Object
		want    []string
		says    []string
	}{
		"nothing is there": {[]client.Object{owner("ns", "sv1")}, []string{pvcWrite, "create PersistentVolume " + uniqueVolumeName("ns", "sv1", string(owner("ns", "sv1").UID))}, nil},
		"bound":            {boundPair(owner("ns", "sv1"), nil), []string{write}, nil},
		"the community's": {boundPair(community, func(w *seen) { w.plain.Annotations, w.pvc.OwnerReferences = nil, nil }), []string{
			"patch PersistentVolume pv-ns-sv1", "patch PersistentVolumeClaim ns/pvc-sv1", "patch SharedVolume ns/sv1", write,
		}, []string{"Normal Adopted: migrated from the community's operator"}},
		"the volume is deleted": {boundPair(owner("ns", "sv1"), func(w *seen) {
			w.plain.DeletionTimestamp, w.plain.Finalizers = &now, []string{"a/b"}
		}), []string{"delete PersistentVolumeClaim ns/pvc-sv1"}, nil},
	} {
		w := newWorking(t, tc.objects...)
		if _, err := lookAt(t, w); err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(tc.want, w.cached.Writes); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.says, w.events.Said, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnErrorIsTheSharedVolumesOrIsTriedAgain(t *testing.T) {
	volumes := schema.GroupResource{Resource: "persistentvolumes"}
	terminating := apierrors.NewForbidden(volumes, "x", textError("ending"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		err    error
		again  time.Duration
		fails  bool
		writes int
	}{
		"a conflict":         {apierrors.NewConflict(volumes, "x", textError("changed")), lag, false, 1},
		"it has gone":        {apierrors.NewNotFound(volumes, "x"), lag, false, 1},
		"the namespace goes": {terminating, 0, false, 1},
		"no connection":      {textError("refused"), 0, true, 1},
		"refused":            {apierrors.NewForbidden(volumes, "x", textError("no")), 30 * time.Second, false, 2},
	} {
		w := newWorking(t, owner("ns", "sv1"))
		w.cached.Refuse(tc.err, "create")
		result, err := lookAt(t, w)
		if result.RequeueAfter != tc.again || (err != nil) != tc.fails || len(w.cached.Writes) != tc.writes {
			t.Errorf("%s: again in %s, error %v, writes %q", name, result.RequeueAfter, err, w.cached.Writes)
		}
	}
}

func TestASharedVolumeIsLeftAloneAndSaysSoOnce(t *testing.T) {
	w := newWorking(t, owner("ns", "sv1"))
	look := func(community, namesake neighbour) {
		t.Helper()
		w.Others = Others{Community: &community, Namesake: &namesake}
		if _, err := lookAt(t, w); err != nil || len(w.cached.Writes) > 0 {
			t.Fatal(err, w.cached.Writes)
		}
	}
	for range 2 {
		look(neighbour{running: "a/b"}, neighbour{running: "c/d"})
	}
	look(neighbour{}, neighbour{running: "c/d"})
	look(neighbour{}, neighbour{running: "e/f", older: "e/f"})
	const rest = " runs, which also manages SharedVolumes or their driver; uninstall the operator of that Deployment: then this operator manages the SharedVolume"
	want := []string{
		"Normal LeftToCommunityOperator: ignored while Deployment a/b" + rest, "Normal LeftToOtherOperator: ignored while Deployment c/d" + rest,
	}
	if diff := cmp.Diff(want, w.events.Said); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLimitsAreReadFromTheListAndThePolicies(t *testing.T) {
	const undecided = "it is not decided yet whether namespaces without a list may use shares: waiting for ValidatingAdmissionPolicy " + crdName
	for name, tc := range map[string]struct {
		namespace string
		policies  bool
		objects   []client.Object
		want      limits
		err       string
	}{
		"a list":                          {"ns", true, nil, limits{Namespace: "ns", List: "*", Listed: true}, ""},
		"no namespace":                    {"gone", true, nil, limits{}, "the cache lags behind the cluster"},
		"not decided":                     {"bare", true, nil, limits{Namespace: "bare"}, undecided},
		"a policy that remembers nothing": {"bare", true, []client.Object{policyOf(crdName, "")}, limits{Namespace: "bare"}, undecided},
		"open":                            {"bare", true, []client.Object{policyOf(crdName, "Allow")}, limits{Namespace: "bare"}, ""},
		"closed": {"bare", true, []client.Object{policyOf(crdName, "Deny"), policyOf(unlistedPolicy, "")}, limits{
			Namespace: "bare", Closed: true,
		}, ""},
		"without policies":             {"bare", false, nil, limits{Namespace: "bare"}, ""},
		"without policies, and shut":   {"bare", false, []client.Object{driverCR("Deny")}, limits{Namespace: "bare", Closed: true}, ""},
		"without policies, and a list": {"ns", false, []client.Object{driverCR("Deny")}, limits{Namespace: "ns", List: "*", Listed: true}, ""},
	} {
		w := newWorking(t, append(tc.objects, namespace("bare", nil))...)
		w.Policies = tc.policies
		got, err := w.limits(t.Context(), tc.namespace)
		if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err || got != tc.want {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
	}
}

func TestAVolumeGoesOnlyIfNobodyNeedsIt(t *testing.T) {
	released := func(w *seen) { w.plain.Status.Phase = corev1.VolumeReleased }
	volume := pair(owner("ns", "sv1"), released).plain
	pvc := pair(owner("ns", "sv1"), nil).pvc
	sv, successor := owner("ns", "sv1"), owner("ns", "sv1")
	successor.UID = "another"
	for name, tc := range map[string]struct {
		cached, live []client.Object
		community    neighbour
		deleted      bool
		again        time.Duration
	}{
		"nobody":                             {nil, nil, neighbour{}, true, 0},
		"its SharedVolume":                   {[]client.Object{sv}, nil, neighbour{}, false, 0},
		"its SharedVolume, not in the cache": {nil, []client.Object{sv}, neighbour{}, false, 0},
		"another SharedVolume of its name":   {[]client.Object{successor}, []client.Object{successor}, neighbour{}, true, 0},
		"its PVC":                            {[]client.Object{pvc}, nil, neighbour{}, false, 0},
		"its PVC, which has lost its label":  {nil, []client.Object{pvc}, neighbour{}, false, 10 * time.Minute},
		"the community's operator":           {nil, nil, neighbour{running: "a/b"}, false, 0},
	} {
		cached, live := newCluster(t, append(tc.cached, volume)...), newCluster(t, tc.live...)
		r := &VolumeReconciler{Client: cached, Live: live, Others: Others{Community: &tc.community, Namesake: &neighbour{}}}
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(volume)})
		if err != nil || (len(cached.Writes) > 0) != tc.deleted || result.RequeueAfter != tc.again {
			t.Errorf("%s: wrote %q, again in %s, error %v", name, cached.Writes, result.RequeueAfter, err)
		}
	}
}

// Kubernetes binds a volume by the name of its PVC, whoever has made one of that name since.
func TestAVolumeThatWasNeverBoundIsSealedBeforeItGoes(t *testing.T) {
	volume := pair(owner("ns", "sv1"), func(w *seen) {
		w.plain.Status.Phase, w.plain.Spec.ClaimRef.UID = corev1.VolumeAvailable, ""
	}).plain
	sealedBeforeItGoes(t, volume)
	// Somebody has removed what it says about its PVC: it is open to all PVCs of its class.
	volume = volume.DeepCopy()
	volume.Spec.ClaimRef = nil
	sealedBeforeItGoes(t, volume)
}

func sealedBeforeItGoes(t *testing.T, volume *corev1.PersistentVolume) {
	t.Helper()
	cached := newCluster(t, volume)
	r := &VolumeReconciler{Client: cached, Live: newCluster(t), Others: alone()}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(volume)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch PersistentVolume pv-ns-sv1", volumeDrop}, cached.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	uid := volume.Annotations[ownerUIDAnnotation]
	if uid == "" || !strings.Contains(cached.Bodies[0], `"name":"pvc-sv1","uid":"`+uid+`"}`) || !strings.Contains(cached.Bodies[0], `"resourceVersion":`) {
		t.Errorf("sent %s", cached.Bodies[0])
	}
	// What has changed since is looked at anew, and stays until then.
	cached = newCluster(t, volume)
	cached.Refuse(apierrors.NewConflict(schema.GroupResource{Resource: "persistentvolumes"}, "x", textError("y")), "patch PersistentVolume pv-ns-sv1")
	r.Client = cached
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(volume)})
	if err != nil || result.RequeueAfter != lag || len(cached.Writes) != 1 {
		t.Errorf("again in %s, error %v, writes %q", result.RequeueAfter, err, cached.Writes)
	}
}

func TestAPreviewNamesWhatAMigrationChanges(t *testing.T) {
	community := owner("ns", "sv1")
	community.Finalizers = []string{CommunityFinalizer}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"ours":                {boundPair(owner("ns", "sv1"), nil), nil},
		"the community's":     {boundPair(community, func(w *seen) { w.plain.Annotations, w.pvc.OwnerReferences = nil, nil }), []string{"sv1", "pv-ns-sv1", "pvc-sv1"}},
		"all but handed over": {boundPair(community, nil), []string{"sv1"}},
		"without a pair":      {[]client.Object{community}, []string{"sv1"}},
	} {
		c := newCluster(t, tc.objects...)
		found, err := Preview(t.Context(), c)
		var got []string
		for _, object := range found {
			got = append(got, object.GetName())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil || len(c.Writes) > 0 {
			t.Errorf("%s: error %v, writes %q (-want +got):\n%s", name, err, c.Writes, diff)
		}
		c.Refuse(errors.New("no answer"))
		if _, err := Preview(t.Context(), c); err == nil || err.Error() != "list SharedVolumes: no answer" {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestTheCacheHoldsASharedVolumeOnlyWhereItIsServed(t *testing.T) {
	for _, tc := range []struct {
		served, policies bool
		want             int
	}{{false, false, 4}, {true, false, 5}, {false, true, 6}, {true, true, 7}} {
		options := CacheOptions("operator", tc.served, tc.policies)
		if len(options) != tc.want {
			t.Errorf("%+v: %d kinds", tc, len(options))
		}
		for object, option := range options {
			if _, isVolume := object.(*corev1.PersistentVolume); isVolume && option.Label.String() != ownedLabel+"=true" {
				t.Errorf("volumes are held by %s", option.Label)
			}
		}
	}
}
