package sharedvolume

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

const (
	// StorageClass joins volumes and PVCs; it need not exist.
	StorageClass = "efs-sc"

	// ownedLabel and the two labels of the owner are those of the community's operator. Other people's tools read them.
	ownedLabel          = "openshift.io/aws-efs-operator-owned"
	ownerNamespaceLabel = "openshift.io/aws-efs-operator-shared-volume-owner-namespace"
	ownerNameLabel      = "openshift.io/aws-efs-operator-shared-volume-owner-name"

	// These annotations say which SharedVolume a volume was made for: names can be used again, and labels can be cut.
	ownerNameAnnotation = "aws-efs.managed.openshift.io/shared-volume"
	ownerUIDAnnotation  = "aws-efs.managed.openshift.io/shared-volume-uid"
	// volumeUIDAnnotation on a PVC says that its volume is there.
	volumeUIDAnnotation = "aws-efs.managed.openshift.io/volume-uid"

	// CommunityFinalizer is what the community's operator puts on every SharedVolume.
	CommunityFinalizer = "finalizer.awsefs.managed.openshift.io"

	kind = "SharedVolume"
)

// capacity is arbitrary: EFS grows as needed, and Kubernetes wants a number.
func capacity() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

// labels of the volume and the PVC of a SharedVolume.
func labels(namespace, name string) map[string]string {
	return map[string]string{
		ownedLabel:          "true",
		ownerNamespaceLabel: fit(namespace, longestLabel),
		ownerNameLabel:      fit(name, longestLabel),
	}
}

// newVolume is the volume of a SharedVolume for the PVC with this UID. It names that from the start: Kubernetes would bind a volume that names
// its PVC by name only to whatever PVC of that name there is.
func newVolume(owner *v1alpha1.SharedVolume, name string, pvc types.UID) *corev1.PersistentVolume {
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: labels(owner.Namespace, owner.Name),
			Annotations: map[string]string{ownerNameAnnotation: owner.Name, ownerUIDAnnotation: string(owner.UID)},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         capacity(),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			VolumeMode:       &mode,
			StorageClassName: StorageClass,
			// The data is not ours.
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: owner.Namespace, Name: pvcName(owner.Name), UID: pvc,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: efs.DriverName, VolumeHandle: shareIn(owner).Handle(),
			}},
		},
	}
}

// newPVC is the PVC of a SharedVolume on its volume. It goes with its owner, without a finalizer that anybody would have
// to drop.
func newPVC(owner *v1alpha1.SharedVolume, volume string) *corev1.PersistentVolumeClaim {
	class, mode := StorageClass, corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.Namespace, Name: pvcName(owner.Name), Labels: labels(owner.Namespace, owner.Name),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion().String(), Kind: kind, Name: owner.Name, UID: owner.UID,
			}},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			VolumeMode:       &mode,
			StorageClassName: &class,
			VolumeName:       volume,
			Resources:        corev1.VolumeResourceRequirements{Requests: capacity()},
		},
	}
}
