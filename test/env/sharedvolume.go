package env

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// The IDs of the community's manual.
const (
	FileSystem  = "fs-1234cdef"
	AccessPoint = "fsap-0123456789abcdef"
)

// SharedVolumesServedBefore makes the cluster one in which namespaces without a list may use SharedVolumes, as they could before this
// operator came. In a new cluster it denies them.
func (c *Cluster) SharedVolumesServedBefore(ctx context.Context) error {
	owner, err := c.CRDUID(ctx)
	if err != nil {
		return err
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{
		OwnerReferences: []metav1.OwnerReference{OfCRD(owner)},
		Name:            SharedVolumesCRD, Labels: map[string]string{"app.kubernetes.io/managed-by": OperatorName},
		Annotations: map[string]string{efs.DefaultAnnotation: "Allow"},
	}}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: "true"}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{
				APIGroups: []string{"aws-efs.managed.openshift.io"}, APIVersions: []string{"*"}, Resources: []string{"sharedvolumes"},
			},
		},
	}}}
	before := &admissionv1.ValidatingAdmissionPolicy{}
	err = c.Client.Get(ctx, client.ObjectKeyFromObject(policy), before)
	if err == nil && !slices.ContainsFunc(before.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == owner }) {
		// Its CRD was deleted, so delete it, too.
		err = c.Client.Delete(ctx, before, client.Preconditions{UID: &before.UID})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("ValidatingAdmissionPolicy %s: %w", policy.Name, err)
	}
	err = c.Client.Create(ctx, policy)
	if apierrors.IsAlreadyExists(err) {
		// An operator that runs was faster, or it was so before.
		_, err = c.Kubectl(ctx, "annotate", "--overwrite", "validatingadmissionpolicy", policy.Name, efs.DefaultAnnotation+"=Allow")
		if err == nil {
			_, err = c.Kubectl(ctx, "delete", "--ignore-not-found", "validatingadmissionpolicies,validatingadmissionpolicybindings",
				"unlisted-namespaces."+policy.Name)
		}
	}
	if err != nil {
		return fmt.Errorf("ValidatingAdmissionPolicy %s: %w", policy.Name, err)
	}
	return nil
}

// SharedVolume is one as a developer writes it.
func SharedVolume(namespace, name string) *v1alpha1.SharedVolume {
	return &v1alpha1.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.SharedVolumeSpec{FileSystemID: FileSystem, AccessPointID: AccessPoint},
	}
}

// CommunityVolume is a SharedVolume with its volume and PVC as the community's operator makes them: without a PVC reference,
// a UID or an owner, and held by a finalizer. The old shape of a volume has the access point in its mount options.
func CommunityVolume(namespace, name string, old bool) (*v1alpha1.SharedVolume, *corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	sv := SharedVolume(namespace, name)
	sv.Finalizers = []string{"finalizer.awsefs.managed.openshift.io"}
	labels := map[string]string{
		CommunityLabel: "true",
		"openshift.io/aws-efs-operator-shared-volume-owner-namespace": namespace,
		"openshift.io/aws-efs-operator-shared-volume-owner-name":      name,
	}
	volume, pvc, _ := Workload()
	volume.Name, volume.Labels = "pv-"+namespace+"-"+name, labels
	volume.Spec.CSI.VolumeHandle = FileSystem + "::" + AccessPoint
	if old {
		volume.Spec.CSI.VolumeHandle, volume.Spec.MountOptions = FileSystem, []string{"tls", "accesspoint=" + AccessPoint}
	}
	pvc.Namespace, pvc.Name, pvc.Labels, pvc.Spec.VolumeName = namespace, "pvc-"+name, labels, volume.Name
	return sv, volume, pvc
}

// PutCommunityVolume makes a SharedVolume as the community's operator does and waits until its PVC is bound.
func (c *Cluster) PutCommunityVolume(ctx context.Context, namespace, name string, old bool) (*v1alpha1.SharedVolume, error) {
	sv, volume, pvc := CommunityVolume(namespace, name, old)
	if err := c.Put(ctx, CommunityName, sv, volume, pvc); err != nil {
		return nil, err
	}
	err := Await(ctx, "PVC "+pvc.Name+" bound", func() error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(pvc), pvc); err != nil {
			return err
		}
		if pvc.Status.Phase != corev1.ClaimBound {
			return errors.New(string(pvc.Status.Phase))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(sv), sv); err != nil {
		return nil, err
	}
	sv.Status = v1alpha1.SharedVolumeStatus{
		Phase: v1alpha1.Ready, ClaimRef: v1alpha1.ClaimReference{Kind: "PersistentVolumeClaim", Name: pvc.Name},
		Message: "left from before",
	}
	return sv, c.Client.Status().Update(ctx, sv)
}

// PairGone checks that the PVC and the volume of a SharedVolume have gone.
func (c *Cluster) PairGone(ctx context.Context, sv *v1alpha1.SharedVolume) error {
	pvcs, volumes := &corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}
	if err := errors.Join(c.Client.List(ctx, pvcs, client.InNamespace(sv.Namespace)), c.Client.List(ctx, volumes)); err != nil {
		return err
	}
	for i := range pvcs.Items {
		for _, owner := range pvcs.Items[i].OwnerReferences {
			if owner.UID == sv.UID {
				return fmt.Errorf("PVC %s is still there", pvcs.Items[i].Name)
			}
		}
	}
	for i := range volumes.Items {
		if volumes.Items[i].Annotations["aws-efs.managed.openshift.io/shared-volume-uid"] == string(sv.UID) {
			return fmt.Errorf("volume %s is still there, %s", volumes.Items[i].Name, volumes.Items[i].Status.Phase)
		}
	}
	return nil
}

// Phase checks the phase of a SharedVolume, and fills it in.
func (c *Cluster) Phase(ctx context.Context, sv *v1alpha1.SharedVolume, want v1alpha1.Phase) error {
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(sv), sv); err != nil {
		return err
	}
	if sv.Status.Phase != want {
		return fmt.Errorf("%s/%s is %s, not %s: %s", sv.Namespace, sv.Name, sv.Status.Phase, want, sv.Status.Message)
	}
	return nil
}

// Ready checks that a SharedVolume says Ready, and that its PVC is bound to its volume, which is for this PVC alone.
func (c *Cluster) Ready(ctx context.Context, sv *v1alpha1.SharedVolume) error {
	if err := c.Phase(ctx, sv, v1alpha1.Ready); err != nil {
		return err
	}
	pvc, volume := PVCOf(sv), VolumeOf(sv)
	err := errors.Join(
		c.Client.Get(ctx, client.ObjectKeyFromObject(pvc), pvc), c.Client.Get(ctx, client.ObjectKeyFromObject(volume), volume))
	if err != nil {
		return err
	}
	ref := volume.Spec.ClaimRef
	switch {
	case pvc.Status.Phase != corev1.ClaimBound || pvc.Spec.VolumeName != volume.Name:
		return fmt.Errorf("PVC %s is %s to %s, the status says %s", pvc.Name, pvc.Status.Phase, pvc.Spec.VolumeName, volume.Name)
	case ref == nil || ref.UID != pvc.UID:
		return fmt.Errorf("volume %s is for %v", volume.Name, ref)
	case !meta.IsStatusConditionTrue(sv.Status.Conditions, "Ready") || !meta.IsStatusConditionTrue(sv.Status.Conditions, "Bound"):
		return fmt.Errorf("conditions %v", sv.Status.Conditions)
	case sv.Status.ObservedGeneration != sv.Generation:
		return fmt.Errorf("generation %d of %d", sv.Status.ObservedGeneration, sv.Generation)
	}
	return nil
}

// PVCOf is the PVC that the status names.
func PVCOf(sv *v1alpha1.SharedVolume) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: sv.Namespace, Name: sv.Status.ClaimRef.Name}}
}

// VolumeOf is the volume that the status names.
func VolumeOf(sv *v1alpha1.SharedVolume) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: sv.Status.VolumeName}}
}
