package doctor

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Doctor compares objects with what the driver accepts, without any event.
func TestWhatADriverRefusesIsSeenInTheObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		fault func(*scene)
		args  []string
		want  string
	}{
		"access mode": {func(s *scene) {
			s.add(claimOf("new", "efs", ""))
			change(s, "new", func(one *corev1.PersistentVolumeClaim) {
				one.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
			})
		}, []string{"pvc", "new"}, "ERROR    Driver efs.csi.aws.com refuses access mode ReadOnlyMany: the driver accepts ReadWriteMany, ReadWriteOnce."},
		"volume mode": {func(s *scene) {
			s.add(claimOf("new", "efs", ""))
			change(s, "new", func(one *corev1.PersistentVolumeClaim) { one.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) })
		}, []string{"pvc", "new"}, "ERROR    Driver efs.csi.aws.com refuses volumeMode Block: the driver accepts Filesystem."},
		"attribute": {func(s *scene) {
			change(s, "pv-data", func(one *corev1.PersistentVolume) {
				one.Spec.CSI.VolumeAttributes = map[string]string{"mounttargetip": "a.name"}
			})
			s.stuck("a")
		}, []string{"pod", "web"}, "ERROR    Driver efs.csi.aws.com refuses volume attribute mounttargetip: it must be an IP address."},
		"unknown attribute": {func(s *scene) {
			change(s, "pv-data", func(one *corev1.PersistentVolume) {
				one.Spec.CSI.VolumeAttributes = map[string]string{"path": "/a", "storage.kubernetes.io/csiProvisionerIdentity": "x"}
			})
			s.stuck("a")
		}, []string{"pod", "web"}, "ERROR    Driver efs.csi.aws.com refuses volume attribute path, which it does not know."},
		"second access mode of a volume": {func(s *scene) {
			change(s, "pv-data", func(one *corev1.PersistentVolume) {
				one.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadOnlyMany}
			})
			s.stuck("a")
		}, []string{"pod", "web"}, "UNKNOWN  The pod waits for its volumes, and no event says why."},
		"attribute of a volume that no pod uses": {func(s *scene) {
			drop[*corev1.Pod](s, "web")
			change(s, "pv-data", func(one *corev1.PersistentVolume) {
				one.Status.Phase, one.Spec.CSI.VolumeAttributes = corev1.VolumeBound, map[string]string{"mounttargetip": "a.name"}
			})
		}, []string{"pv", "pv-data"}, "WARNING  Driver efs.csi.aws.com refuses volume attribute mounttargetip: it must be an IP address."},
		"handle of a bound claim": {func(s *scene) {
			change(s, "pv-data", func(one *corev1.PersistentVolume) { one.Spec.CSI.VolumeHandle = "fs-nothing" })
		}, []string{"pvc", "data"}, "WARNING  Driver efs.csi.aws.com refuses volumeHandle"},
		"volumes of the cluster": {func(s *scene) {
			change(s, "pv-data", func(one *corev1.PersistentVolume) { one.Spec.CSI.VolumeAttributes = map[string]string{"path": "/a"} })
		}, nil, "WARNING  1 PersistentVolume has values that the driver refuses, so new pods can't mount such a volume."},
		"attribute that the installed version accepts": {func(s *scene) {
			change(s, daemonSet, func(one *appsv1.DaemonSet) {
				one.Spec.Template.Spec.Containers = []corev1.Container{{Name: "csi-driver", Image: "registry.example/efs:v2.1.15"}}
			})
			change(s, "pv-data", func(one *corev1.PersistentVolume) { one.Spec.CSI.VolumeAttributes = map[string]string{"path": "/a"} })
			s.stuck("a")
		}, []string{"pod", "web"}, "UNKNOWN  The pod waits for its volumes, and no event says why."},
		"growth": {func(s *scene) {
			change(s, "data", func(one *corev1.PersistentVolumeClaim) {
				one.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
				one.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
			})
		}, []string{"pvc", "data"}, "WARNING  The PersistentVolumeClaim never grows, but pods can store more"},
		"class that promises growth": {func(s *scene) {
			change(s, "efs", func(one *storagev1.StorageClass) { one.AllowVolumeExpansion = new(true) })
		}, nil, "WARNING  StorageClass efs has allowVolumeExpansion, but driver efs.csi.aws.com can't expand volumes."},
	} {
		s := open(t)
		tc.fault(s)
		text, code := s.ask("table", tc.args...)
		if code != 3 || !strings.Contains(text, tc.want) || strings.Count(text, "  object ") != 1 {
			t.Errorf("%s: exit code %d, want 3 and %q alone:\n%s", name, code, tc.want, text)
		}
	}
}
