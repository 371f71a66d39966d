package doctor

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failedDelete is an event of the csi-provisioner. Events about PersistentVolumes are in namespace default.
func failedDelete(message string) *corev1.Event {
	made := eventOn("PersistentVolume", "pv-data", "VolumeFailedDelete", message)
	made.Namespace, made.InvolvedObject.Namespace = metav1.NamespaceDefault, ""
	return made
}

func TestTheStatesOfAPersistentVolumeAreNamed(t *testing.T) {
	now := metav1.Unix(1500, 0)
	released := func(policy corev1.PersistentVolumeReclaimPolicy, phase corev1.PersistentVolumePhase, words string) func(*scene) {
		return func(s *scene) {
			drop[*corev1.Pod](s, "web")
			drop[*corev1.PersistentVolumeClaim](s, "data")
			change(s, "pv-data", func(one *corev1.PersistentVolume) {
				one.Status.Phase, one.Spec.PersistentVolumeReclaimPolicy = phase, policy
			})
			if words != "" {
				s.add(failedDelete(words))
			}
		}
	}
	bound := func(s *scene) {
		change(s, "pv-data", func(one *corev1.PersistentVolume) { one.Status.Phase = corev1.VolumeBound })
		change(s, "data", func(one *corev1.PersistentVolumeClaim) { one.Spec.VolumeName = "pv-data" })
	}
	for name, tc := range map[string]struct {
		fault func(*scene)
		code  int
		want  string
	}{
		"bound":     {bound, 0, "nothing wrong"},
		"available": {released(corev1.PersistentVolumeReclaimRetain, corev1.VolumeAvailable, ""), 0, "INFO     PersistentVolume pv-data is Available"},
		"pending":   {released(corev1.PersistentVolumeReclaimRetain, corev1.VolumePending, ""), 3, `UNKNOWN  The PersistentVolume is in phase "Pending"`},
		"retained": {released(corev1.PersistentVolumeReclaimRetain, corev1.VolumeReleased, ""), 3,
			"WARNING  PersistentVolume pv-data is Released: its PersistentVolumeClaim is gone"},
		"to be deleted": {released(corev1.PersistentVolumeReclaimDelete, corev1.VolumeReleased, ""), 3,
			"WARNING  PersistentVolume pv-data is Released: driver efs.csi.aws.com has not deleted it yet."},
		"released, with words": {released(corev1.PersistentVolumeReclaimDelete, corev1.VolumeReleased, "no such luck"), 3,
			"UNKNOWN  The driver cannot delete the volume."},
		"failed": {released(corev1.PersistentVolumeReclaimDelete, corev1.VolumeFailed, "no such luck"), 3,
			"ERROR    PersistentVolume pv-data has failed: driver efs.csi.aws.com could not delete it."},
		"failed, made by hand": {released(corev1.PersistentVolumeReclaimDelete, corev1.VolumeFailed, "code = Unauthenticated desc = Access Denied"), 3,
			"ERROR    The driver may not delete the access point of PersistentVolume pv-data, because the driver did not create it."},
		"terminating, in use": {func(s *scene) {
			bound(s)
			change(s, "pv-data", func(one *corev1.PersistentVolume) {
				one.DeletionTimestamp, one.Finalizers = &now, []string{"kubernetes.io/pv-protection"}
			})
		}, 3, "WARNING  PersistentVolume pv-data is Terminating: Kubernetes deletes it when its PersistentVolumeClaim is deleted."},
		"terminating, held": {func(s *scene) {
			released(corev1.PersistentVolumeReclaimDelete, corev1.VolumeReleased, "")(s)
			change(s, "pv-data", func(one *corev1.PersistentVolume) {
				one.DeletionTimestamp, one.Finalizers = &now, []string{"a.example/b"}
			})
		}, 3, "said     finalizers: a.example/b"},
		"absent": {func(s *scene) { drop[*corev1.PersistentVolume](s) }, 3, "ERROR    PersistentVolume pv-data does not exist."},
		"bound to nothing": {func(s *scene) {
			released(corev1.PersistentVolumeReclaimDelete, corev1.VolumeBound, "")(s)
		}, 3, "WARNING  PersistentVolume pv-data is Bound to PersistentVolumeClaim my-project/data, which does not exist."},
	} {
		s := open(t)
		tc.fault(s)
		text, code := s.ask("table", "pv", "pv-data")
		if code != tc.code || !strings.Contains(text, tc.want) || !strings.HasPrefix(text, "PersistentVolume pv-data\n") {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", name, code, tc.code, tc.want, text)
		}
	}
}

func TestTheClusterNamesVolumesThatCouldNotBeDeleted(t *testing.T) {
	s := open(t)
	change(s, "pv-data", func(one *corev1.PersistentVolume) { one.Status.Phase = corev1.VolumeFailed })
	text, code := s.ask("table")
	if code != 3 || !strings.Contains(text, "Drivers could not delete 1 PersistentVolume in phase Failed.") || !strings.Contains(text, "doctor pv pv-data") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}
