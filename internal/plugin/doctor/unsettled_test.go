package doctor

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is not in its wanted state never ends as "nothing wrong", nor with exit code 0.
func TestASubjectThatIsNotInItsWantedStateIsNeverHealthy(t *testing.T) {
	pod, pvc := []string{"pod", "web"}, []string{"pvc", "data"}
	now := metav1.Unix(1500, 0)
	for name, tc := range map[string]struct {
		fault func(*scene)
		args  []string
		want  []string
	}{
		"a PVC that waits for a pod": {func(s *scene) {
			change(s, "efs", func(one *storagev1.StorageClass) {
				one.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
			})
			s.add(claimOf("new", "efs", ""))
		}, []string{"pvc", "new"}, []string{"WARNING  The PersistentVolumeClaim waits for its first pod"}},
		"a PVC with a warning of which no rule is known": {func(s *scene) {
			change(s, "data", func(one *corev1.PersistentVolumeClaim) { one.Status.Phase = corev1.ClaimPending })
			change(s, "pv-data", func(one *corev1.PersistentVolume) { one.Spec.StorageClassName = "efs" })
			s.add(eventOn("PersistentVolumeClaim", "data", "Strange", "Cannot bind\x1b[31m to requested volume: does not match"))
		}, pvc, []string{"UNKNOWN ", "said     Strange: Cannot bind", "does not match", "checks do not know the cause"}},
		"a PVC that names a volume of another class": {func(s *scene) {
			change(s, "data", func(one *corev1.PersistentVolumeClaim) { one.Status.Phase = corev1.ClaimPending })
			s.add(eventOn("PersistentVolumeClaim", "data", "VolumeMismatch", "Cannot bind to requested volume: storageClassName does not match"))
		}, pvc, []string{"ERROR    PersistentVolumeClaim data does not fit PersistentVolume pv-data", `storageClassName "efs" of the claim, "" of the volume`}},
		"a PVC that is deleted": {func(s *scene) {
			change(s, "data", func(one *corev1.PersistentVolumeClaim) { one.DeletionTimestamp, one.Finalizers = &now, []string{"a/b"} })
		}, pvc, []string{"WARNING  The PersistentVolumeClaim is Terminating", "pods: web; finalizers: a/b"}},
		"a PVC that is deleted, and a pod that has ended": {func(s *scene) {
			change(s, "web", func(one *corev1.Pod) { one.Status.Phase = corev1.PodSucceeded })
			change(s, "data", func(one *corev1.PersistentVolumeClaim) { one.DeletionTimestamp, one.Finalizers = &now, []string{"a/b"} })
		}, pvc, []string{"WARNING  The PersistentVolumeClaim is Terminating", "pods: web; finalizers: a/b"}},
		"a PVC that another program's finalizer holds": {func(s *scene) {
			drop[*corev1.Pod](s, "web")
			change(s, "data", func(one *corev1.PersistentVolumeClaim) {
				one.DeletionTimestamp, one.Finalizers = &now, []string{"kubernetes.io/pvc-protection", "backup.example.com/keep\x1b[2J"}
			})
		}, pvc, []string{"WARNING  The PersistentVolumeClaim is Terminating: finalizers of other programs", "backup.example.com/keep"}},
		"a pod that can't start with a PVC that is deleted": {func(s *scene) {
			change(s, "data", func(one *corev1.PersistentVolumeClaim) { one.DeletionTimestamp, one.Finalizers = &now, []string{"a/b"} })
			s.stuck("")
			s.add(eventOn("Pod", "web", "FailedScheduling", `persistentvolumeclaim "data" is being deleted`))
		}, pod, []string{"ERROR    PersistentVolumeClaim data is Terminating, so Kubernetes starts no new pod with it."}},
		"a PVC of a class that has a warning": {func(s *scene) {
			change(s, "efs", func(one *storagev1.StorageClass) {
				one.Parameters["unheard"] = "of"
				one.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
			})
			s.add(claimOf("new", "efs", ""))
			change(s, "new", func(one *corev1.PersistentVolumeClaim) {
				one.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "a"}
				one.Status.Phase = ""
			})
			s.add(eventOn("PersistentVolumeClaim", "new", "Strange", "words"))
		}, []string{"pvc", "new"}, []string{"WARNING  StorageClass efs has a parameter", "UNKNOWN  The PersistentVolumeClaim is not bound", "Strange: words"}},
		"a node that is not ready, with its words": {func(s *scene) {
			change(s, "a", func(one *corev1.Node) { one.DeletionTimestamp, one.Finalizers = &now, []string{"a/b"} })
		}, []string{"node", "a"}, []string{"UNKNOWN  The node is Terminating", "           oc describe node a"}},
		"a PVC that does not grow": {func(s *scene) {
			change(s, "data", func(one *corev1.PersistentVolumeClaim) {
				one.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
				one.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
				one.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "Resizing", Status: "True", Message: "in progress"}}
			})
		}, pvc, []string{"WARNING  The PersistentVolumeClaim never grows, but pods can store more"}},
		"a pod that crashes": {func(s *scene) {
			change(s, "web", func(one *corev1.Pod) {
				one.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: "False", Reason: "ContainersNotReady", Message: "containers: [a]"}}
			})
		}, pod, []string{"UNKNOWN  The pod is not ready", "Ready=False ContainersNotReady: containers: [a]"}},
		"a pod that is deleted": {func(s *scene) {
			change(s, "web", func(one *corev1.Pod) { one.DeletionTimestamp, one.Finalizers = &now, []string{"a/b"} })
		}, pod, []string{"UNKNOWN  The pod is Terminating"}},
	} {
		s := open(t)
		tc.fault(s)
		text, code := s.ask("table", tc.args...)
		if code != 3 || strings.Contains(text, "nothing wrong") || strings.Contains(text, "\x1b") {
			t.Errorf("%s: exit %d\n%s", name, code, text)
		}
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, text)
			}
		}
	}
}
