package volume

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPodMountsThePVCsThatItNamesAndThePVCsMadeForIt(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "shared"}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
	}
	if diff := cmp.Diff([]string{"shared", "web-0-scratch"}, PVCsOf(pod)); diff != "" {
		t.Errorf("PVCs (-want +got):\n%s", diff)
	}
}

func TestAPodIsFinishedWhenAllOfItHasEnded(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{
		corev1.PodPending: false, corev1.PodRunning: false, corev1.PodUnknown: false, corev1.PodSucceeded: true, corev1.PodFailed: true,
	} {
		if got := IsFinished(&corev1.Pod{Status: corev1.PodStatus{Phase: phase}}); got != want {
			t.Errorf("%s: finished is %v", phase, got)
		}
	}
}

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
	} {
		if got := isToDelete(released(tc.change), ours); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
