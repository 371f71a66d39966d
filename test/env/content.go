package env

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Content is what the operator is responsible for: everything but status, and of the metadata only our labels and
// annotations.
func Content(object *unstructured.Unstructured) map[string]any {
	kept := object.DeepCopy().Object
	delete(kept, "status")
	for _, field := range []string{"metadata", "secrets", "imagePullSecrets"} {
		delete(kept, field)
	}
	if object.GetLabels()["config.openshift.io/inject-trusted-cabundle"] == "true" {
		delete(kept, "data")
	}
	if spec, ok := kept["spec"].(map[string]any); ok && object.GetKind() == "Service" {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	for name, all := range map[string]map[string]string{"labels": object.GetLabels(), "annotations": object.GetAnnotations()} {
		ours := map[string]any{}
		for key, value := range all {
			if strings.Contains(key, "openshift.io/inject") || strings.HasSuffix(key, "managed-by") ||
				strings.HasSuffix(key, "rendered-hash") || strings.HasSuffix(key, "serving-cert-secret-name") {
				ours[key] = value
			}
		}
		kept[name] = ours
	}
	return kept
}

// Bystanders are objects that look much like the driver's and are not.
func Bystanders() []client.Object {
	volume, pvc, _ := Workload()
	return []client.Object{volume, pvc, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "efs-dynamic", Labels: map[string]string{"app.kubernetes.io/managed-by": OperatorName}},
		Provisioner: "efs.csi.aws.com",
	}, &corev1.ConfigMap{
		// Not one of our objects, although it looks like one; the operator has no right to delete it.
		ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: "copy-of-the-bundle"},
	}, &corev1.ConfigMap{
		// Our label alone, without our field manager, does not make an object ours.
		ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: "copy", Labels: map[string]string{"app.kubernetes.io/managed-by": OperatorName}},
	}}
}

// Workload is an application with a volume of the driver.
func Workload() (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim, *corev1.Pod) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	class := "efs-sc"
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-default-data"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, StorageClassName: class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "efs.csi.aws.com", VolumeHandle: "fs-0123456789abcdef0::fsap-0123456789abcdef0",
			}},
		},
	}
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &class, VolumeName: volume.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Image: "registry.example/app:1"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
	}
	return volume, pvc, pod
}
