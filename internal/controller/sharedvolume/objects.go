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
	// StorageClass is the class name by which Kubernetes matches volumes with PVCs. A StorageClass of this name need not exist.
	StorageClass = "efs-sc"

	// These labels have the names that the community's operator used, because users' tools read them.
	ownedLabel          = "openshift.io/aws-efs-operator-owned"
	ownerNamespaceLabel = "openshift.io/aws-efs-operator-shared-volume-owner-namespace"
	ownerNameLabel      = "openshift.io/aws-efs-operator-shared-volume-owner-name"

	// These annotations identify the owner of a volume. Labels don't suffice, because a user can reuse a name and a label value can be shortened.
	ownerNameAnnotation = "aws-efs.managed.openshift.io/shared-volume"
	ownerUIDAnnotation  = "aws-efs.managed.openshift.io/shared-volume-uid"
	// volumeUIDAnnotation on a PVC names the PVC's volume, once the volume exists. Setting the annotation makes Kubernetes bind the PVC at once: see
	// nudging.
	volumeUIDAnnotation = "aws-efs.managed.openshift.io/volume-uid"

	// CommunityFinalizer is the finalizer that the community's operator sets on every SharedVolume.
	CommunityFinalizer = "finalizer.awsefs.managed.openshift.io"

	kind = "SharedVolume"
)

// capacity is arbitrary. EFS grows as needed, but Kubernetes requires a number.
func capacity() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

// labels returns the labels of a SharedVolume's volume and PVC.
func labels(namespace, name string) map[string]string {
	return map[string]string{
		ownedLabel:          "true",
		ownerNamespaceLabel: fit(namespace, longestLabel),
		ownerNameLabel:      fit(name, longestLabel),
	}
}

// newVolume returns the volume of a SharedVolume for the PVC with this UID. The volume must name the UID from the start, because Kubernetes would
// bind a volume without the UID to any PVC of that name.
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
			// The operator never deletes data.
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

// newPVC returns the PVC of a SharedVolume for a volume. The garbage collector deletes the PVC with its owner, so the PVC needs no finalizer.
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
