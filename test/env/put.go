package env

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the community's operator calls itself, how it marks what it makes, and the CRD that is its and ours.
const (
	CommunityName    = "aws-efs-operator"
	CommunityLabel   = "openshift.io/aws-efs-operator-owned"
	SharedVolumesCRD = "sharedvolumes.aws-efs.managed.openshift.io"
)

// Put creates objects under a field manager. It updates existing objects, as an operator does that finds its objects changed.
func (c *Cluster) Put(ctx context.Context, manager string, objects ...client.Object) error {
	for _, wanted := range objects {
		object, ok := wanted.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", wanted)
		}
		err := c.Client.Create(ctx, object, client.FieldOwner(manager))
		if apierrors.IsAlreadyExists(err) {
			// Kubernetes reports in it at any time.
			err = retry.RetryOnConflict(retry.DefaultRetry, func() error { return c.putBack(ctx, manager, wanted) })
		}
		if err != nil {
			return fmt.Errorf("make %T %s: %w", wanted, wanted.GetName(), err)
		}
	}
	return nil
}

func (c *Cluster) putBack(ctx context.Context, manager string, wanted client.Object) error {
	live, ok := wanted.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", wanted)
	}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(wanted), live); err != nil {
		return err
	}
	object, ok := wanted.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", wanted)
	}
	object.SetUID(live.GetUID())
	object.SetResourceVersion(live.GetResourceVersion())
	return c.Client.Update(ctx, object, client.FieldOwner(manager))
}

// CRDUID is that of the CRD of SharedVolumes.
func (c *Cluster) CRDUID(ctx context.Context) (types.UID, error) {
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: SharedVolumesCRD}}
	crd.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	crd.APIVersion = "apiextensions.k8s.io/v1"
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
		return "", fmt.Errorf("CRD of SharedVolumes: %w", err)
	}
	return crd.UID, nil
}

// OfCRD is the reference by which the community's objects go with the CRD of SharedVolumes.
func OfCRD(crd types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: SharedVolumesCRD, UID: crd,
	}
}

// PutVolume makes a volume of a driver, and a PVC that is bound to it.
func (c *Cluster) PutVolume(ctx context.Context, driver, namespace, pvc string) error {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes, none := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ""
	name := namespace + "-" + pvc
	handle := "vol-" + name
	if driver == EFS("").Name {
		// A migration holds nodes whose pods use a handle that the driver refuses.
		handle = FileSystem + ":/" + name
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: pvc},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle},
		},
	}}
	bound := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pvc},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &none, VolumeName: name, Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	for _, object := range []client.Object{volume, bound} {
		if err := c.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("volume of %s: %w", driver, err)
		}
	}
	return Await(ctx, "PVC "+pvc+" bound", func() error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(bound), bound); err != nil {
			return err
		}
		if bound.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", bound.Status.Phase)
		}
		return nil
	})
}

// NewObject is an object without content.
func NewObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}
