package real

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/test/env"
)

// The annotations with which Kubernetes and the csi-provisioner say who serves an in-tree volume.
const (
	provisionerAnnotation = "volume.kubernetes.io/storage-provisioner"
	migratedAnnotation    = "pv.kubernetes.io/migrated-to"
)

// liveInTree has a StatefulSet whose PVC is of a class with an in-tree provisioner. Kubernetes and the sidecars translate it: the volume is
// provisioned, attached and resized under the name of the driver, and its PersistentVolume names no driver. What comes after deletes it.
func (l *life) liveInTree(t *testing.T) {
	ctx, driver := t.Context(), l.pod.v.driverName()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-in-tree"}, Provisioner: l.inTree, AllowVolumeExpansion: new(true),
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	l.create(t, class)
	t.Cleanup(func() {
		if err := suite.cluster.Client.Delete(context.Background(), class); err != nil {
			t.Error(err)
		}
	})
	if got := volume.Provisioner(l.inTree); got != driver {
		t.Errorf("the product takes %s for the driver of %s, want %s", got, l.inTree, driver)
	}
	l.create(t, l.statefulSet(class.Name))
	const pvc = "data-old-0"
	l.eventually(t, "the PVC of the in-tree class is bound", func() error { return l.bound(ctx, pvc) })
	name := l.checkInTree(t, pvc)
	if l.does("PUBLISH_UNPUBLISH_VOLUME") {
		l.eventually(t, "the in-tree volume is attached", func() error { return l.attachedVolume(ctx, name) })
	}
	if l.does("EXPAND_VOLUME") {
		l.change(t, pvc, func(one *corev1.PersistentVolumeClaim) {
			one.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		})
		l.eventually(t, "the in-tree volume has 2Gi", func() error { return l.status(ctx, pvc, "2Gi", "") })
	}
}

// statefulSet has one pod, on the node that has the driver.
func (l *life) statefulSet(class string) *appsv1.StatefulSet {
	labels := map[string]string{"app": "old"}
	pvc := l.newPVC("data", nil)
	pvc.Namespace, pvc.Spec.StorageClassName = "", &class
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "old"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*pvc},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector: map[string]string{corev1.LabelHostname: l.node},
				Containers: []corev1.Container{{
					Name: "application", Image: "registry.example/application", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				}},
			}},
		},
	}
}

// checkInTree checks what Kubernetes has written about a volume of an in-tree class, and that the product takes it for a volume of the driver, which
// the pod uses.
func (l *life) checkInTree(t *testing.T, name string) string {
	t.Helper()
	ctx, driver := t.Context(), l.pod.v.driverName()
	pvc, err := l.get(ctx, name)
	env.Must(t, err)
	if got := pvc.Annotations[provisionerAnnotation]; got != driver {
		t.Errorf("PVC %s has the provisioner %q, want %s", name, got, driver)
	}
	made := &corev1.PersistentVolume{}
	env.Must(t, suite.cluster.Client.Get(ctx, client.ObjectKey{Name: pvc.Spec.VolumeName}, made))
	if made.Spec.CSI != nil || volume.DriverOf(made) != driver || made.Annotations[migratedAnnotation] != driver {
		t.Errorf("PersistentVolume %s is of driver %q with the source %+v and the annotations %v; want an in-tree volume that is migrated to %s",
			made.Name, volume.DriverOf(made), made.Spec.PersistentVolumeSource, made.Annotations, driver)
	}
	volumes, err := volume.OfDriver(ctx, suite.cluster.Client, driver)
	env.Must(t, err)
	users, err := volumes.Users(ctx, suite.cluster.Client)
	if pods := volume.Pods(users); err != nil || !slices.Contains(volumes.Names, made.Name) || !slices.Contains(pods, l.namespace+"/old-0") {
		t.Errorf("volumes %v, users %v: want volume %s and pod old-0 among them (%v)", volumes.Names, pods, made.Name, err)
	}
	return made.Name
}

// attachedVolume checks that a volume is attached by the driver's name.
func (l *life) attachedVolume(ctx context.Context, name string) error {
	attachments := &storagev1.VolumeAttachmentList{}
	if err := suite.cluster.Client.List(ctx, attachments); err != nil {
		return err
	}
	for _, one := range attachments.Items {
		if from := one.Spec.Source.PersistentVolumeName; from != nil && *from == name {
			if one.Spec.Attacher != l.pod.v.driverName() || !one.Status.Attached {
				return fmt.Errorf("volume %s is attached by %s: %v%s", name, one.Spec.Attacher, one.Status.Attached, l.pod.words("csi-attacher"))
			}
			return nil
		}
	}
	return errors.New("no VolumeAttachment names volume " + name)
}
