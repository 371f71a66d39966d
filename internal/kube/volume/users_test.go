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

func TestAPodUsesItsVolumesUntilItHasEndedOrInDeletionUntilItIsGone(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{
		corev1.PodPending: false, corev1.PodRunning: false, corev1.PodUnknown: false, corev1.PodSucceeded: true, corev1.PodFailed: true,
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		if ended, uses := HasEnded(pod), UsesVolumes(pod); ended != want || uses == want {
			t.Errorf("%s: ended is %v, uses volumes is %v", phase, ended, uses)
		}
		pod.DeletionTimestamp = new(metav1.Now())
		if ended, uses := HasEnded(pod), UsesVolumes(pod); ended != want || !uses {
			t.Errorf("%s, in deletion: ended is %v, uses volumes is %v", phase, ended, uses)
		}
	}
}
