package volume

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func TestTheDriverDeletesReleasedVolumesAndThoseWithItsFinalizer(t *testing.T) {
	const ours, others = "disk.example.com", "kubernetes.io/disk"
	now := metav1.Now()
	released := func(change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		made := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": ours}}}
		made.Spec.CSI, made.Status.Phase = &corev1.CSIPersistentVolumeSource{Driver: ours}, corev1.VolumeReleased
		made.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		change(made)
		return made
	}
	for name, tc := range map[string]struct {
		change func(*corev1.PersistentVolume)
		want   bool
	}{
		"released":     {func(*corev1.PersistentVolume) {}, true},
		"made by hand": {func(pv *corev1.PersistentVolume) { pv.Annotations = nil }, true},
		"to be retained": {func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, false},
		"bound":              {func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeBound }, false},
		"of the in-tree one": {func(pv *corev1.PersistentVolume) { pv.Annotations["pv.kubernetes.io/provisioned-by"] = others }, false},
		"migrated": {func(pv *corev1.PersistentVolume) {
			pv.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": others, "pv.kubernetes.io/migrated-to": ours}
		}, true},
		"deleted in the storage system": {func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = &now }, false},
		"being deleted": {func(pv *corev1.PersistentVolume) {
			pv.DeletionTimestamp, pv.Finalizers, pv.Status.Phase = &now, []string{provisionerFinalizer}, corev1.VolumeBound
		}, true},
		"never to be released": {func(pv *corev1.PersistentVolume) {
			pv.DeletionTimestamp, pv.Finalizers, pv.Status.Phase = &now, []string{provisionerFinalizer}, corev1.VolumeAvailable
		}, false},
	} {
		if got := isToDelete(released(tc.change), ours); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// After its last pod, a PVC in deletion is gone, and only the driver can delete the volume.
func TestABoundVolumeLosesAPVCInDeletion(t *testing.T) {
	const ours = "disk.example.com"
	pvc := func(name, uid string, change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		made := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(uid)}}
		change(made)
		return made
	}
	bound := func(name string, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		made := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name}}
		made.Spec.CSI, made.Status.Phase = &corev1.CSIPersistentVolumeSource{Driver: ours}, corev1.VolumeBound
		made.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		made.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "team", Name: name, UID: types.UID(name)}
		change(made)
		return made
	}
	asIs := func(*corev1.PersistentVolume) {}
	deleted := func(made *corev1.PersistentVolumeClaim) {
		made.DeletionTimestamp, made.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"kubernetes.io/pvc-protection"}
	}
	reader := canned.New(scheme.Scheme,
		pvc("used", "used", func(*corev1.PersistentVolumeClaim) {}), bound("used", asIs),
		pvc("deleted", "deleted", deleted), bound("deleted", asIs), bound("gone", asIs),
		pvc("recreated", "another", func(*corev1.PersistentVolumeClaim) {}), bound("recreated", asIs),
		pvc("kept", "kept", deleted), bound("kept", func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}),
		bound("others", func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other.example.com" }),
	)
	volumes, err := OfDriver(t.Context(), reader, ours)
	if err != nil {
		t.Fatal(err)
	}
	names, err := volumes.LosingPVC(t.Context(), reader)
	if diff := cmp.Diff([]string{"pv-deleted", "pv-gone", "pv-recreated"}, names); diff != "" || err != nil {
		t.Errorf("volumes that lose their PVC (-want +got):\n%s%v", diff, err)
	}
	if want := []string{"list PersistentVolume", "list PersistentVolumeClaim team"}; !slices.Equal(reader.Reads, want) {
		t.Errorf("it reads %q, want %q", reader.Reads, want)
	}
}
