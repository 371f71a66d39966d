package volume

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// provisionerFinalizer keeps a deleted PersistentVolume in the API server until the csi-provisioner has deleted the volume in the storage system.
const provisionerFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// Volumes are the PersistentVolumes that a driver serves. OfDriver fills all fields in one pass over all PersistentVolumes.
type Volumes struct {
	// Names has the names of all PersistentVolumes of the driver, sorted.
	Names []string
	// PVCs has the PersistentVolumeClaims that are bound to these PersistentVolumes.
	PVCs map[client.ObjectKey]bool
	// ToDelete names the PersistentVolumes that the driver still has to delete in the storage system, sorted.
	ToDelete []string
	// bound has the PersistentVolumes in phase Bound that the driver must delete in the storage system when their PVC is gone.
	bound []boundVolume
	// driver is the name of the driver.
	driver string
}

type boundVolume struct {
	name string
	pvc  client.ObjectKey
	uid  types.UID
}

// OfDriver reads the PersistentVolumes that a driver serves, and calls visit with each of them.
func OfDriver(ctx context.Context, reader client.Reader, driver string, visit ...func(*corev1.PersistentVolume)) (Volumes, error) {
	found := Volumes{PVCs: map[client.ObjectKey]bool{}, driver: driver}
	err := EachPage(ctx, reader, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			if DriverOf(&list.Items[i]) == driver {
				found.add(&list.Items[i], driver)
				for _, each := range visit {
					each(&list.Items[i])
				}
			}
		}
	})
	if err != nil {
		return Volumes{}, fmt.Errorf("list PersistentVolumes of driver %s: %w", driver, err)
	}
	slices.Sort(found.Names)
	slices.Sort(found.ToDelete)
	return found, nil
}

func (v *Volumes) add(volume *corev1.PersistentVolume, driver string) {
	v.Names = append(v.Names, volume.Name)
	if isToDelete(volume, driver) {
		v.ToDelete = append(v.ToDelete, volume.Name)
	}
	// A released PV still names its last PVC.
	pvc := volume.Spec.ClaimRef
	if pvc == nil || volume.Status.Phase != corev1.VolumeBound {
		return
	}
	key := client.ObjectKey{Namespace: pvc.Namespace, Name: pvc.Name}
	v.PVCs[key] = true
	if isProvisionerOf(volume, driver) && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		v.bound = append(v.bound, boundVolume{name: volume.Name, pvc: key, uid: pvc.UID})
	}
}

// Users lists the pods that use the volumes, sorted. It reads pods only in the namespaces of bound PVCs. If the driver replaces an in-tree plugin,
// pods in any namespace can name volumes without a PVC, so Users reads all pods.
func (v *Volumes) Users(ctx context.Context, reader client.Reader) ([]User, error) {
	if InTree(v.driver) == "" {
		return UsersOf(ctx, reader, v.PVCs)
	}
	users, err := usersIn(ctx, reader, v.PVCs, v.driver)
	slices.SortFunc(users, byPod)
	return users, err
}

// LosingPVC returns the names of the bound PersistentVolumes whose PVC is being deleted or is gone, sorted. Kubernetes is about to release these
// PersistentVolumes. Then the driver has to delete them. LosingPVC reads PVCs only in the namespaces of the volumes in field "bound".
func (v *Volumes) LosingPVC(ctx context.Context, reader client.Reader) ([]string, error) {
	namespaces := map[string]bool{}
	for _, volume := range v.bound {
		namespaces[volume.pvc.Namespace] = true
	}
	kept := map[types.UID]bool{}
	for namespace := range namespaces {
		err := EachPage(ctx, reader, &corev1.PersistentVolumeClaimList{}, func(list *corev1.PersistentVolumeClaimList) {
			for i := range list.Items {
				kept[list.Items[i].UID] = list.Items[i].DeletionTimestamp == nil
			}
		}, client.InNamespace(namespace))
		if err != nil {
			return nil, fmt.Errorf("list PVCs in namespace %s: %w", namespace, err)
		}
	}
	var names []string
	for _, volume := range v.bound {
		if !kept[volume.uid] && !slices.Contains(v.ToDelete, volume.name) {
			names = append(names, volume.name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names, nil
}

// isProvisionerOf reports whether the csi-provisioner of this driver is responsible for deleting a volume. isProvisionerOf applies the same rule as
// isProvisionerForVolume in the csi-provisioner (sigs.k8s.io/sig-storage-lib-external-provisioner v13.0.0, controller/controller.go).
func isProvisionerOf(volume *corev1.PersistentVolume, driver string) bool {
	by := volume.Annotations["pv.kubernetes.io/provisioned-by"]
	return by == driver || volume.Annotations["pv.kubernetes.io/migrated-to"] == driver || by == "" && volume.Spec.CSI != nil
}

// isToDelete reports whether the driver still has to delete a volume in the storage system. isToDelete applies the same rule as shouldDelete in the
// csi-provisioner's file that the comment on isProvisionerOf names. The csi-provisioner deletes released volumes with the reclaim policy Delete, even
// if an administrator created them. isToDelete also returns true for a bound volume that is being deleted, because the csi-provisioner deletes this
// volume after its release. If the claimRef of such a volume was removed, the volume is Available. The csi-provisioner neither deletes an Available
// volume nor drops the finalizer, so a removal of the driver changes nothing for this volume.
func isToDelete(volume *corev1.PersistentVolume, driver string) bool {
	if !isProvisionerOf(volume, driver) {
		return false
	}
	if volume.DeletionTimestamp != nil {
		return slices.Contains(volume.Finalizers, provisionerFinalizer) && volume.Status.Phase != corev1.VolumeAvailable
	}
	return volume.Status.Phase == corev1.VolumeReleased && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}
