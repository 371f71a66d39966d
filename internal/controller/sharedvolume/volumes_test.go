package sharedvolume

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Only a volume that no claim holds, and that says whose it was, may ever be deleted.
func TestWhichVolumesAreLetGo(t *testing.T) {
	made := func(phase corev1.PersistentVolumePhase, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		volume := newVolume(owner("ns", "sv1"), "pv-ns-sv1")
		volume.Status.Phase = phase
		if phase != corev1.VolumeAvailable {
			volume.Spec.ClaimRef.UID = "uid-of-claim"
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
		"released without a claim":        {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }), false},
		"made by the community":           {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Annotations = nil }), false},
		"without the UID":                 {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { delete(v.Annotations, ownerUIDAnnotation) }), false},
		"for another claim":               {made(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Name = "mine" }), false},
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
