package clustercsidriver

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/volume"
)

// classInterval is how soon to look again whether the last PersistentVolume has gone of a StorageClass that the cloud speaks against. They are
// not watched.
const classInterval = 30 * time.Minute

// classesInUse are the StorageClasses of which there are PersistentVolumes, among those that the cloud speaks against. Only where there is one
// of these, the PersistentVolumes are listed.
func (r *Reconciler) classesInUse(ctx context.Context, cfg driver.Config) (map[string]bool, error) {
	unfounded := r.Driver.Unfounded(cfg)
	if len(unfounded) == 0 {
		return nil, nil
	}
	inUse := map[string]bool{}
	err := volume.EachPage(ctx, r.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			if class := list.Items[i].Spec.StorageClassName; slices.Contains(unfounded, class) {
				inUse[class] = true
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the PersistentVolumes of StorageClasses %v: %w", unfounded, err)
	}
	return inUse, nil
}

// addCloudClasses makes the StorageClasses of Driver.CloudClasses that are there a part of the inventory: nobody knows their names before.
func (r *Reconciler) addCloudClasses(classes []driver.Class) {
	if r.Driver.CloudClasses == nil {
		return
	}
	kind := schema.GroupKind{Group: storagev1.GroupName, Kind: "StorageClass"}
	inventory := slices.DeleteFunc(slices.Clone(r.applier.Inventory), func(subject apply.Subject) bool { return subject.GroupKind() == kind })
	for _, name := range r.Driver.Made(classes) {
		inventory = append(inventory, apply.Subject{
			GroupVersionKind: storagev1.SchemeGroupVersion.WithKind(kind.Kind), ObjectKey: client.ObjectKey{Name: name},
		})
	}
	r.applier.Inventory = inventory
}
