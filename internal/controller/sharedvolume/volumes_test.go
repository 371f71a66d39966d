package sharedvolume

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Only a volume that no PVC holds, and that says whose it was, may ever be deleted.
func TestWhichVolumesAreLetGo(t *testing.T) {
	made := func(phase corev1.PersistentVolumePhase, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		volume := newVolume(owner("ns", "sv1"), "pv-ns-sv1", "uid-of-pvc")
		volume.Status.Phase = phase
		if phase == corev1.VolumeAvailable {
			volume.Spec.ClaimRef.UID = ""
		}
		if change != nil {
			change(volume)
		}
		return volume
	}
	for name, tc := range map[string]struct {
		volume *corev1.PersistentVolume
		want   bool
	}{
		"released":                        {made(corev1.VolumeReleased, nil), true},
		"never bound":                     {made(corev1.VolumeAvailable, nil), true},
		"bound":                           {made(corev1.VolumeBound, nil), false},
		"failed":                          {made(corev1.VolumeFailed, nil), false},
		"about to be bound":               {made(corev1.VolumePending, nil), false},
		"released without a PVC":          {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }), false},
		"made by the community":           {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Annotations = nil }), false},
		"without the UID":                 {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { delete(v.Annotations, ownerUIDAnnotation) }), false},
		"for another PVC":                 {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Name = "mine" }), false},
		"given to another namespace":      {made(corev1.VolumeAvailable, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Namespace = "other" }), false},
		"its data would go":               {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = "Delete" }), false},
		"without our labels":              {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Labels = nil }), false},
		"of an administrator, our labels": {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Annotations = map[string]string{"a": "b"} }), false},
	} {
		t.Run(name, func(t *testing.T) {
			_, ours := originOf(tc.volume)
			if got := ours && isLetGo(tc.volume); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// What Kubernetes' protection of PVCs counts, no more and no less.
func TestWhichPodsHoldAPVC(t *testing.T) {
	pod := func(node, pvc string, phase corev1.PodPhase) *corev1.Pod {
		found := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
		found.Spec.Volumes = []corev1.Volume{{}, {VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc},
		}}}
		return found
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"running":                {pod("node", "pvc-sv1", corev1.PodRunning), true},
		"starting":               {pod("node", "pvc-sv1", corev1.PodPending), true},
		"finished":               {pod("node", "pvc-sv1", corev1.PodSucceeded), true},
		"waiting for a node":     {pod("", "pvc-sv1", corev1.PodPending), false},
		"with another PVC":       {pod("node", "pvc-sv11", corev1.PodRunning), false},
		"without any PVC":        {&corev1.Pod{Spec: corev1.PodSpec{NodeName: "node"}}, false},
		"never started, no node": {pod("", "pvc-sv1", corev1.PodFailed), false},
	} {
		if got := uses(tc.pod, "pvc-sv1"); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
