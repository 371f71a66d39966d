package volume

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// User is a pod that is not finished and uses a PersistentVolumeClaim.
type User struct {
	// Pod is "namespace/pod".
	Pod string
	// Node is empty before the pod is scheduled.
	Node string
}

// Pods are the names of users, as "namespace/pod".
func Pods(users []User) []string {
	names := make([]string, 0, len(users))
	for _, user := range users {
		names = append(names, user.Pod)
	}
	return names
}

// OfDriver lists the PersistentVolumes that a driver serves, by names, unsorted.
func OfDriver(ctx context.Context, reader client.Reader, driver string) ([]string, error) {
	var names []string
	err := eachOfDriver(ctx, reader, driver, func(volume *corev1.PersistentVolume) { names = append(names, volume.Name) })
	return names, err
}

// provisionerFinalizer is on a PersistentVolume while the deletion of the PersistentVolume must also delete the volume in the storage system.
const provisionerFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// ToDelete lists the PersistentVolumes that a driver still has to delete in the storage system, by names, unsorted.
func ToDelete(ctx context.Context, reader client.Reader, driver string) ([]string, error) {
	var names []string
	err := eachOfDriver(ctx, reader, driver, func(volume *corev1.PersistentVolume) {
		if isToDelete(volume, driver) {
			names = append(names, volume.Name)
		}
	})
	return names, err
}

// isToDelete decides as the csi-provisioner does: sigs.k8s.io/sig-storage-lib-external-provisioner v13.0.0, controller/controller.go,
// isProvisionerForVolume and shouldDelete. The csi-provisioner deletes released volumes with the reclaim policy Delete, even if an administrator
// created them.
func isToDelete(volume *corev1.PersistentVolume, driver string) bool {
	by := volume.Annotations["pv.kubernetes.io/provisioned-by"]
	isResponsible := by == driver || volume.Annotations["pv.kubernetes.io/migrated-to"] == driver || by == "" && volume.Spec.CSI != nil
	if volume.DeletionTimestamp != nil {
		return isResponsible && slices.Contains(volume.Finalizers, provisionerFinalizer)
	}
	return isResponsible && volume.Status.Phase == corev1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// BoundPVCs are the PVCs that are bound to PersistentVolumes of a driver.
func BoundPVCs(ctx context.Context, reader client.Reader, driver string) (map[client.ObjectKey]bool, error) {
	pvcs := map[client.ObjectKey]bool{}
	err := eachOfDriver(ctx, reader, driver, func(volume *corev1.PersistentVolume) {
		// A released PV still names its last PVC.
		if pvc := volume.Spec.ClaimRef; pvc != nil && volume.Status.Phase == corev1.VolumeBound {
			pvcs[client.ObjectKey{Namespace: pvc.Namespace, Name: pvc.Name}] = true
		}
	})
	return pvcs, err
}

func eachOfDriver(ctx context.Context, reader client.Reader, driver string, visit func(*corev1.PersistentVolume)) error {
	err := EachPage(ctx, reader, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			if DriverOf(&list.Items[i]) == driver {
				visit(&list.Items[i])
			}
		}
	})
	if err != nil {
		return fmt.Errorf("list PersistentVolumes of driver %s: %w", driver, err)
	}
	return nil
}

// Users lists the pods that use a driver's volumes, sorted. It reads pods only in the namespaces of bound PVCs.
func Users(ctx context.Context, reader client.Reader, driver string) ([]User, error) {
	pvcs, err := BoundPVCs(ctx, reader, driver)
	if err != nil {
		return nil, err
	}
	return UsersOf(ctx, reader, pvcs)
}

// UsersOf lists the pods that use some PVCs, sorted.
func UsersOf(ctx context.Context, reader client.Reader, pvcs map[client.ObjectKey]bool) ([]User, error) {
	namespaces := map[string]bool{}
	for pvc := range pvcs {
		namespaces[pvc.Namespace] = true
	}
	var found []User
	for namespace := range namespaces {
		users, err := usersIn(ctx, reader, pvcs, client.InNamespace(namespace))
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", namespace, err)
		}
		found = append(found, users...)
	}
	slices.SortFunc(found, func(a, b User) int { return strings.Compare(a.Pod, b.Pod) })
	return found, nil
}

// usersIn returns the pods that use PVCs, in a namespace or on a node.
func usersIn(ctx context.Context, reader client.Reader, pvcs map[client.ObjectKey]bool, where client.ListOption) ([]User, error) {
	if len(pvcs) == 0 {
		return nil, nil
	}
	var found []User
	err := EachPage(ctx, reader, &corev1.PodList{}, func(list *corev1.PodList) {
		for i := range list.Items {
			pod := &list.Items[i]
			uses := func(pvc string) bool { return pvcs[client.ObjectKey{Namespace: pod.Namespace, Name: pvc}] }
			if !IsFinished(pod) && slices.ContainsFunc(PVCsOf(pod), uses) {
				found = append(found, User{Pod: pod.Namespace + "/" + pod.Name, Node: pod.Spec.NodeName})
			}
		}
	}, where)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return found, nil
}

// PVCsOf are the names of the PersistentVolumeClaims that a pod mounts.
func PVCsOf(pod *corev1.Pod) []string {
	var names []string
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			// The PVC of a generic ephemeral volume is named after pod and volume (KEP-1698).
			names = append(names, pod.Name+"-"+volume.Name)
		}
	}
	return names
}

// IsFinished reports whether all containers of a pod have ended for good. Such a pod uses no volume any more.
func IsFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
