package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bound is a volume of a test of TESTS=, in a namespace of its own.
func bound() corev1.PersistentVolume {
	one := used("data", "fs-1::fsap-2", "e2e-1")
	one.Spec.ClaimRef.UID, one.Status.Phase = "pvc", corev1.VolumeBound
	one.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	return one
}

// The tests of TESTS= delete volumes, and end before the volumes are gone. All other volumes are in use.
func TestTheCleanUpWaitsForVolumesThatAreBeingDeleted(t *testing.T) {
	released, retained, failed, terminating, held := bound(), bound(), bound(), bound(), bound()
	released.Status.Phase, retained.Status.Phase, failed.Status.Phase = corev1.VolumeReleased, corev1.VolumeReleased, corev1.VolumeFailed
	retained.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	terminating.Status.Phase, terminating.DeletionTimestamp = corev1.VolumeReleased, &metav1.Time{Time: time.Now()}
	terminating.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	// Its PVC protects it.
	held.DeletionTimestamp = terminating.DeletionTimestamp
	live := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "e2e-1", Name: "data", UID: "pvc"}}
	deleted := live
	deleted.DeletionTimestamp = terminating.DeletionTimestamp
	for name, one := range map[string]struct {
		volume corev1.PersistentVolume
		pvcs   []corev1.PersistentVolumeClaim
		waits  bool
	}{
		"released":                           {released, nil, true},
		"released, and kept by its policy":   {retained, nil, false},
		"failed":                             {failed, nil, false},
		"deleted by a person":                {terminating, nil, true},
		"deleted by a person, with a PVC":    {held, []corev1.PersistentVolumeClaim{live}, false},
		"bound":                              {bound(), []corev1.PersistentVolumeClaim{live}, false},
		"bound to a PVC that is deleted":     {bound(), []corev1.PersistentVolumeClaim{deleted}, true},
		"bound to a PVC that does not exist": {bound(), nil, true},
	} {
		for _, goes := range []bool{true, false} {
			cluster, noted := ours()
			cluster.shares, noted.Run = map[string]string{shareName: "fs-1"}, "this"
			looks := 0
			cluster.lists["persistentvolumes"] = func() any {
				// It is gone at the third look.
				if looks++; goes && looks > 2 {
					return corev1.PersistentVolumeList{}
				}
				return corev1.PersistentVolumeList{Items: []corev1.PersistentVolume{one.volume}}
			}
			cluster.lists["persistentvolumeclaims"] = corev1.PersistentVolumeClaimList{Items: one.pvcs}
			_, err := cluster.opened().uninstall(t.Context(), noted)
			if works := err == nil && len(cluster.objects) == 0; works != (goes && one.waits) {
				t.Errorf("%s, goes %t: left are %v (%v)", name, goes, cluster.objects, err)
			}
			if err != nil && (!strings.Contains(err.Error(), "PersistentVolume data of PVC e2e-1/data") ||
				len(cluster.changed("delete")) > 0 || len(cluster.changed("storage")) > 0) {
				t.Errorf("%s, goes %t: it has done %q (%v)", name, goes, cluster.did, err)
			}
			if !one.waits && looks > 1 {
				t.Errorf("%s: it has looked %d times, though nothing will delete the volume", name, looks)
			}
			looks = 0
			cluster.did = nil
			_, err = cluster.opened().deleteShares(t.Context(), true)
			if works := err == nil && len(cluster.did) == 1; works != (goes && one.waits) {
				t.Errorf("%s, goes %t: in AWS, it has done %q (%v)", name, goes, cluster.did, err)
			}
		}
	}
}

// The driver is broken. An administrator learns which volumes are left, why, and by which commands they go.
func TestTheCleanUpSaysHowToGoOnWithABrokenDriver(t *testing.T) {
	warning := func(name, text string, at int64) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Name: name}, Message: text, LastTimestamp: metav1.Unix(at, 0),
		}
	}
	cluster, _ := ours()
	cluster.lists["persistentvolumes"] = corev1.PersistentVolumeList{Items: []corev1.PersistentVolume{
		used("pvc-1", "fs-1", space), used("pvc-2", "fs-1", space), used("others", "fs-1", "shop"),
	}}
	cluster.lists["type=Warning,involvedObject.kind=PersistentVolume"] = corev1.EventList{Items: []corev1.Event{
		warning("pvc-1", "AccessDenied", 2), warning("pvc-1", "an older one", 1), warning("others", "not this one", 3),
	}}
	_, err := cluster.opened().deleteVolumes(t.Context())
	if err == nil {
		t.Fatal("the clean-up has succeeded")
	}
	for _, want := range []string{
		": pvc-1 pvc-2. ", `Of pvc-1, Kubernetes says "AccessDenied". `, "oc describe clustercsidriver efs.csi.aws.com",
		`"oc delete persistentvolume pvc-1 pvc-2 --wait=false"`, `"oc patch persistentvolume pvc-1 pvc-2 --type merge -p '{"metadata":{"finalizers":null}}'"`,
		"CLEAN=1",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "others") || strings.Contains(err.Error(), "an older one") {
		t.Errorf("the error is %v", err)
	}
	// The nodes can't unmount a volume.
	cluster.lists["pods"] = corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "writer"}}}}
	cluster.lists["type=Warning,involvedObject.kind=Pod"] = corev1.EventList{Items: []corev1.Event{warning("writer", "can't unmount", 1)}}
	_, err = cluster.opened().deleteVolumes(t.Context())
	if err == nil {
		t.Fatal("the clean-up has succeeded")
	}
	for _, want := range []string{"left: writer. ", `"can't unmount"`, "oc -n " + space + " delete pod writer --force", "CLEAN=1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "oc delete persistentvolume") {
		t.Errorf("a pod uses the volumes, and the error says how to delete them: %v", err)
	}
}
