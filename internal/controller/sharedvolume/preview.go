package sharedvolume

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// Preview returns the objects that the controller would change in place to migrate from the community's operator: SharedVolumes with their volumes
// and PVCs. It writes nothing.
func Preview(ctx context.Context, reader client.Reader) ([]client.Object, error) {
	owners := &v1alpha1.SharedVolumeList{}
	if err := reader.List(ctx, owners); meta.IsNoMatchError(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list SharedVolumes: %w", err)
	}
	var changed []client.Object
	for i := range owners.Items {
		owner := &owners.Items[i]
		if dropping(owner) == nil {
			continue
		}
		found, err := previewOne(ctx, reader, owner)
		if err != nil {
			return nil, err
		}
		changed = append(changed, found...)
	}
	return changed, nil
}

// previewOne returns the objects of one SharedVolume that cutOver would change. It makes no change. It can follow all steps of cutOver, because no
// step depends on the response to an earlier step.
func previewOne(ctx context.Context, reader client.Reader, owner *v1alpha1.SharedVolume) ([]client.Object, error) {
	var w seen
	var err error
	if w.plain, err = find[corev1.PersistentVolume](ctx, reader, client.ObjectKey{Name: plainVolumeName(owner.Namespace, owner.Name)}); err != nil {
		return nil, err
	}
	key := client.ObjectKey{Namespace: owner.Namespace, Name: pvcName(owner.Name)}
	if w.pvc, err = find[corev1.PersistentVolumeClaim](ctx, reader, key); err != nil {
		return nil, err
	}
	changed := []client.Object{owner}
	if volume := volumeOf(owner, w); volume != nil && volume.DeletionTimestamp == nil && marking(owner, w, volume) != nil {
		changed = append(changed, volume)
	}
	if w.pvc != nil && w.pvc.DeletionTimestamp == nil && isPVCOf(w.pvc, owner) && adopting(owner, w.pvc) != nil {
		changed = append(changed, w.pvc)
	}
	return changed, nil
}
