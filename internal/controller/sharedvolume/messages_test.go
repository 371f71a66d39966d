package sharedvolume

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// toldCase is a world and what the status says of it.
type toldCase struct {
	change func(*seen)
	want   string
}

// tellsOf holds a SharedVolume to "Phase Reason: message" in worlds that begin with a pair in order.
func tellsOf(t *testing.T, sv *v1alpha1.SharedVolume, cases map[string]toldCase) {
	t.Helper()
	for name, tc := range cases {
		p := next(sv, pair(sv, tc.change))
		got := string(p.phase) + " " + p.reason
		if p.message != "" {
			got += ": " + p.message
		}
		if got != tc.want || p.query != 0 {
			t.Errorf("%s (then %s):\n got %s\nwant %s", name, step(p), got, tc.want)
		}
	}
}

func TestProblemsOfTheVolumeAreReported(t *testing.T) {
	now := metav1.NewTime(began)
	sv := owner("ns", "sv1")
	unique := uniqueVolumeName("ns", "sv1", string(sv.UID))
	foreign := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-ns-sv1"}}
	tellsOf(t, sv, map[string]toldCase{
		"all is well": {nil, "Ready Bound"},
		"no share": {
			func(w *seen) { w.plain.Spec.CSI = nil },
			"Failed VolumeChanged: PersistentVolume pv-ns-sv1 no longer names an EFS access point: restore it, or delete the SharedVolume when no pod uses " +
				"its PVC",
		},
		"another share": {
			func(w *seen) { w.plain.Spec.CSI.VolumeHandle = "fs-99999999::fsap-99999999" },
			"Pending Restoring: the IDs are immutable: the operator restores them",
		},
		"another share that is not allowed": {
			func(w *seen) {
				w.plain.Spec.CSI.VolumeHandle, w.pvc.Status.Phase = "fs-99999999::fsap-99999999", corev1.ClaimPending
				w.limits = limits{Namespace: "ns", Listed: true, List: "fs-1234cdef"}
			},
			"Failed NotAllowed: the IDs were changed, and the namespace may not use the IDs of PersistentVolume pv-ns-sv1: delete the SharedVolume and " +
				"create another one",
		},
		"about to go": {
			func(w *seen) {
				w.plain.DeletionTimestamp, w.plain.Finalizers, w.pvc = &now, []string{"a/b", "c/d"}, nil
			},
			"Pending Rebuilding: PersistentVolume pv-ns-sv1 is being deleted: waiting until its PVC is deleted and its finalizers are removed (finalizers: " +
				"a/b, c/d); the operator then recreates it",
		},
		"about to go for ever": {
			func(w *seen) { w.plain.DeletionTimestamp, w.pvc, w.limits = &now, nil, notYours() }, "Failed NotAllowed: " + notListed,
		},
		"deleted under pods": {
			func(w *seen) { w.plain.DeletionTimestamp, w.users = &now, []string{"app", "web"} },
			"Failed VolumeDeleting: PersistentVolume pv-ns-sv1 is being deleted, but pods use it: app, web; stop them, and the operator recreates the PVC " +
				"and the volume",
		},
		"deleted, and not allowed": {
			func(w *seen) { w.plain.DeletionTimestamp, w.users, w.limits = &now, []string{}, notYours() },
			"Failed VolumeDeleting: PersistentVolume pv-ns-sv1 is being deleted, and the operator may not recreate it: " + notListed,
		},
		"its name is taken": {
			func(w *seen) { w.plain, w.unique, w.pvc = foreign, foreign, nil },
			"Failed NameTaken: PersistentVolume " + unique + " has another owner: create another SharedVolume, or delete the volume if it is unused",
		},
		"somebody else's": {
			func(w *seen) { w.plain = foreign },
			"Failed NameTaken: PersistentVolumeClaim pvc-sv1 names PersistentVolume pv-ns-sv1, which has another owner: delete the PVC when no pod uses " +
				"it, or choose another name for the SharedVolume",
		},
	})
}

func TestProblemsOfThePVCAreReported(t *testing.T) {
	now := metav1.NewTime(began)
	tellsOf(t, owner("ns", "sv1"), map[string]toldCase{
		"of a previous one": {
			func(w *seen) { w.pvc.OwnerReferences[0].UID = "previous" },
			"Pending WaitingForFormer: waiting for the deletion of PVC pvc-sv1 of a deleted SharedVolume of the same name; pods may still use the PVC",
		},
		"of a previous one, and kept": {
			func(w *seen) { w.plain.Annotations[ownerUIDAnnotation], w.pvc.OwnerReferences = "previous", nil },
			"Failed NameTaken: PersistentVolumeClaim pvc-sv1 belongs to a deleted SharedVolume of the same name: delete it when no pod uses it, or choose " +
				"another name for the SharedVolume",
		},
		"somebody else's, and bound": {
			func(w *seen) { w.pvc.OwnerReferences, w.pvc.Labels = nil, nil },
			"Failed VolumeTaken: PersistentVolume pv-ns-sv1 of this SharedVolume is bound to PersistentVolumeClaim pvc-sv1, which has another owner: pods " +
				"with this PVC can use the share. Find out who created it, and delete it when no pod uses it",
		},
		"somebody else's": {
			func(w *seen) { w.pvc.OwnerReferences, w.pvc.Labels, w.pvc.UID = nil, nil, "another" },
			"Failed NameTaken: PersistentVolumeClaim pvc-sv1 has another owner: delete it if it is unused, or choose another name for the SharedVolume",
		},
		"about to go": {
			func(w *seen) {
				w.pvc.DeletionTimestamp, w.pvc.Finalizers, w.users = &now, []string{"a/b"}, []string{}
			},
			"Pending Rebuilding: waiting for the deletion of PVC pvc-sv1 (finalizers: a/b)",
		},
		"deleted under a pod": {
			func(w *seen) { w.pvc.DeletionTimestamp, w.users = &now, []string{"app"} },
			"Failed ClaimDeleting: PersistentVolumeClaim pvc-sv1 is being deleted: waiting until no pod uses it (used by app); the operator then recreates it",
		},
		"for another volume": {
			func(w *seen) { w.pvc.Spec.VolumeName = "pv-x" },
			"Failed ClaimChanged: PersistentVolumeClaim pvc-sv1 names volume pv-x instead of pv-ns-sv1: delete the PVC when no pod uses it, and the " +
				"operator recreates it",
		},
		"for another volume, under a pod": {
			func(w *seen) {
				w.pvc.Spec.VolumeName, w.pvc.Status.Phase, w.users = "pv-x", corev1.ClaimPending, []string{"app"}
			},
			"Failed ClaimChanged: PersistentVolumeClaim pvc-sv1 names volume pv-x instead of pv-ns-sv1 (used by app): delete the PVC when no pod uses it, " +
				"and the operator recreates it",
		},
		"not bound yet": {func(w *seen) { w.pvc.Status.Phase = corev1.ClaimPending }, "Pending Binding"},
		"not bound for long": {
			func(w *seen) { w.pvc.Status.Phase, w.now = corev1.ClaimPending, w.now.Add(patience) },
			"Pending Binding: waiting for Kubernetes to bind PVC pvc-sv1 to volume pv-ns-sv1; \"oc describe\" of both shows what prevents it",
		},
		"made again, and not allowed": {func(w *seen) { w.pvc, w.limits = nil, notYours() }, "Failed NotAllowed: " + notListed},
	})
}

func TestProblemsOfTheSharedVolumeAreReported(t *testing.T) {
	nothing := func(change func(*seen)) func(*seen) {
		return func(w *seen) {
			*w = seen{live: true, now: began}
			if change != nil {
				change(w)
			}
		}
	}
	tellsOf(t, owner("ns", "sv1"), map[string]toldCase{
		"not listed": {nothing(func(w *seen) { w.limits = notYours() }), "Failed NotAllowed: " + notListed},
		"the namespace has no list": {
			nothing(func(w *seen) { w.limits = limits{Namespace: "ns", Closed: true} }),
			"Failed NotAllowed: namespace ns may not use any file system, because it lacks annotation aws-efs.managed.openshift.io/allowed-shares: " +
				"ask a cluster administrator to set the annotation to fs-1234cdef/fsap-0123456789abcdef",
		},
		"all is free": {nothing(nil), "Pending Creating"},
		"AWS knows no such file system": {
			func(w *seen) {
				w.placement = efs.Placement{Known: true, Reason: "FileSystemNotFound", Message: "fs-1234cdef does not exist"}
			},
			"Ready Bound: fs-1234cdef does not exist",
		},
	})
	invalid := owner("ns", "sv1")
	invalid.Spec.FileSystemID, invalid.Spec.AccessPointID = "fs-x y", ""
	tellsOf(t, invalid, map[string]toldCase{
		"no IDs": {
			nothing(nil),
			"Failed InvalidIDs: \"fs-x y\" and \"\" are not the IDs of an EFS file system and an access point: create another SharedVolume",
		},
	})
	ending := owner("ns", "sv1")
	now := metav1.NewTime(began)
	ending.DeletionTimestamp, ending.Finalizers = &now, []string{"a/b", "c/d"}
	tellsOf(t, ending, map[string]toldCase{
		"held by others": {nil, "Deleting Deleting: waiting for other controllers to remove their finalizers: a/b, c/d"},
	})
}

func TestARefusalOfTheAPIServerIsReported(t *testing.T) {
	pvcs := schema.GroupResource{Resource: "persistentvolumeclaims"}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a quota": {
			apierrors.NewForbidden(pvcs, "pvc-sv1", textError("exceeded quota: few, requested: 1")),
			`QuotaExceeded: persistentvolumeclaims "pvc-sv1" is forbidden: exceeded quota: few, requested: 1: delete unused PVCs, or ask ` +
				`for a larger quota; the size of 1Gi is only nominal`,
		},
		"a policy": {
			apierrors.NewForbidden(pvcs, "pvc-sv1", textError("no")),
			`Forbidden: persistentvolumeclaims "pvc-sv1" is forbidden: no: ask a cluster administrator to allow this`,
		},
		"a webhook": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolumeClaim"}, "pvc-sv1", nil), `Refused: PersistentVolumeClaim "pvc-sv1" is invalid`,
		},
	} {
		before := plan{phase: v1alpha1.Pending, reason: "Creating", bound: true, volume: "pv-ns-sv1", mountable: &mountability{reason: "Regional"}}
		got := refused(before, tc.err)
		if text := got.reason + ": " + got.message; text != tc.want || got.phase != v1alpha1.Failed {
			t.Errorf("%s:\n got %s %s\nwant Failed %s", name, got.phase, text, tc.want)
		}
		if !got.paced || !got.bound || got.volume != "pv-ns-sv1" || got.mountable != before.mountable {
			t.Errorf("%s: what was known is lost: %+v", name, got)
		}
	}
}

func TestAnErrorThatGoesByItselfIsNotTheSharedVolumesFault(t *testing.T) {
	pvcs := schema.GroupResource{Resource: "persistentvolumeclaims"}
	for name, tc := range map[string]struct {
		err       error
		transient bool
	}{
		"forbidden":               {apierrors.NewForbidden(pvcs, "x", textError("no")), false},
		"invalid":                 {apierrors.NewInvalid(schema.GroupKind{}, "x", nil), false},
		"a bad request":           {apierrors.NewBadRequest("no"), false},
		"no connection":           {textError("refused"), true},
		"too many requests":       {apierrors.NewTooManyRequests("later", 1), true},
		"a webhook fails":         {apierrors.NewInternalError(textError("x")), true},
		"a time-out":              {apierrors.NewTimeoutError("x", 1), true},
		"a time-out of a server":  {apierrors.NewServerTimeout(pvcs, "create", 1), true},
		"no server":               {apierrors.NewServiceUnavailable("x"), true},
		"the token has expired":   {apierrors.NewUnauthorized("x"), true},
		"somebody made it before": {apierrors.NewAlreadyExists(pvcs, "x"), true},
	} {
		if isTransient(tc.err) != tc.transient {
			t.Errorf("%s: transient %v", name, isTransient(tc.err))
		}
	}
}

type textError string

func (e textError) Error() string { return string(e) }

// Who may not use a share learns neither its IDs nor what AWS knows of it.
func TestAMessageNamesNoShareThatTheNamespaceMayNotUse(t *testing.T) {
	sv := owner("ns", "sv1")
	for _, uid := range []types.UID{"", "uid-of-pvc"} {
		w := pair(sv, func(w *seen) {
			w.plain.Spec.CSI.VolumeHandle, w.plain.Spec.ClaimRef.UID = "fs-99999999::fsap-99999999", uid
			w.pvc.Status.Phase = corev1.ClaimPending
			w.limits = limits{Namespace: "ns", Listed: true, List: "fs-1234cdef"}
		})
		if got := next(sv, w); strings.Contains(got.message, "99999999") || got.reason != "NotAllowed" {
			t.Errorf("%s: %s", got.reason, got.message)
		}
	}
}
