package clustercsidriver

import (
	"fmt"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
)

// Only the driver deletes the disk of a deleted PVC, detaches a disk, and deletes a snapshot.
func TestADriverStaysWhileItHasToDeleteSomething(t *testing.T) {
	const waits = "Removal is blocked: only the driver can delete these 1 objects and what belongs to them in the storage system: %s. Delete " +
		"their PersistentVolumeClaims and VolumeSnapshots, and wait for the driver. Or set their reclaim policy to Retain. " +
		"To remove the driver anyway, set annotation operator.openshift.io/force-driver-removal=true on ClusterCSIDriver disk.example.com"
	released := releasedVolume()
	losing := released.DeepCopy()
	losing.Status.Phase, losing.Spec.ClaimRef = corev1.VolumeBound, &corev1.ObjectReference{Namespace: "team", Name: "data", UID: "deleted"}
	attached := func(attacher string) client.Object {
		return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: attacher}}
	}
	snapshot := func(driver, policy string) client.Object {
		content := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"driver": driver, "deletionPolicy": policy}}}
		content.SetGroupVersionKind(snapshotv1.ContentKind())
		content.SetName("snap-1")
		return content
	}
	for name, tc := range map[string]struct {
		object client.Object
		force  string
		held   string
	}{
		"a released volume":        {object: released, held: "PersistentVolume pv-1"},
		"a volume without its PVC": {object: losing, held: "PersistentVolume pv-1"},
		"an attachment":            {object: attached(diskName), held: "VolumeAttachment csi-1"},
		"another's attachment":     {object: attached("other.example.com")},
		"a snapshot":               {object: snapshot(diskName, "Delete"), held: "VolumeSnapshotContent snap-1"},
		"another's snapshot":       {object: snapshot("other.example.com", "Delete")},
		"a snapshot to retain":     {object: snapshot(diskName, "Retain")},
		"a released volume, force": {object: released, force: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			d := disk()
			d.Sidecars = []driver.Sidecar{{Name: "attacher"}, {Name: "snapshotter", Needs: driver.VolumeSnapshotClassKind()}}
			trip := newTrip(t, d, csiDriver(), infrastructure(), tc.object)
			cr, _ := healthy()
			cr.Spec.ManagementState = operatorv1.Unmanaged
			metav1.SetMetaDataAnnotation(&cr.ObjectMeta, ForceRemovalAnnotation, tc.force)
			result, want := trip.remove(t.Context(), cr, trip.found(t)), ""
			if tc.held != "" {
				want = fmt.Sprintf(waits, tc.held)
			}
			if result.err != nil || result.removal.inUse != want {
				t.Errorf("it is held by %q, want %q; %v", result.removal.inUse, want, result.err)
			}
		})
	}
}

// releasedVolume is a volume that only the driver can delete.
func releasedVolume() *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}}
	volume.Spec.CSI, volume.Status.Phase = &corev1.CSIPersistentVolumeSource{Driver: diskName}, corev1.VolumeReleased
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	return volume
}
