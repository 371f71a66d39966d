package volume

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// User is a pod that uses volumes of a driver. A pod is a User while UsesVolumes returns true for the pod.
type User struct {
	// Pod is "namespace/pod".
	Pod string
	// Node is empty before the pod is scheduled.
	Node string
	// PVCs are the PersistentVolumeClaims that the caller asked about and that the pod uses.
	PVCs []client.ObjectKey
	// Started is the result of HasStarted for the pod.
	Started bool
}

// Pods returns the names of users, as "namespace/pod".
func Pods(users []User) []string {
	names := make([]string, 0, len(users))
	for _, user := range users {
		names = append(names, user.Pod)
	}
	return names
}

// UsersOf lists the pods that use one of these PVCs, sorted.
func UsersOf(ctx context.Context, reader client.Reader, pvcs map[client.ObjectKey]bool) ([]User, error) {
	namespaces := map[string]bool{}
	for pvc := range pvcs {
		namespaces[pvc.Namespace] = true
	}
	var found []User
	for namespace := range namespaces {
		users, err := usersIn(ctx, reader, pvcs, "", client.InNamespace(namespace))
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", namespace, err)
		}
		found = append(found, users...)
	}
	slices.SortFunc(found, byPod)
	return found, nil
}

func byPod(a, b User) int { return strings.Compare(a.Pod, b.Pod) }

// usersIn returns the pods that use these PVCs, and the pods that mount volumes of a driver without a PVC. If argument "driver" is empty, usersIn
// looks only for PVCs.
func usersIn(ctx context.Context, reader client.Reader, pvcs map[client.ObjectKey]bool, driver string, where ...client.ListOption) ([]User, error) {
	var found []User
	err := EachPage(ctx, reader, &corev1.PodList{}, func(list *corev1.PodList) {
		for i := range list.Items {
			pod := &list.Items[i]
			used := Among(pvcs, pod)
			if UsesVolumes(pod) && (len(used) > 0 || driver != "" && mountsInline(pod, driver)) {
				found = append(found, User{Pod: pod.Namespace + "/" + pod.Name, Node: pod.Spec.NodeName, PVCs: used, Started: HasStarted(pod)})
			}
		}
	}, where...)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return found, nil
}

// Among returns which of the PersistentVolumeClaims pvcs a pod mounts.
func Among(pvcs map[client.ObjectKey]bool, pod *corev1.Pod) []client.ObjectKey {
	var used []client.ObjectKey
	for _, name := range PVCsOf(pod) {
		if key := (client.ObjectKey{Namespace: pod.Namespace, Name: name}); pvcs[key] {
			used = append(used, key)
		}
	}
	return used
}

// PVCsOf returns the names of the PersistentVolumeClaims that a pod mounts.
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

// mountsInline reports whether a pod has an inline volume of the driver. The pod's spec describes such a volume itself, without a
// PersistentVolumeClaim.
func mountsInline(pod *corev1.Pod, driver string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(one corev1.Volume) bool { return InlineDriverOf(&one) == driver })
}

// UsesVolumes reports whether a node may have the volumes of a pod mounted. A pod that is being deleted uses its volumes until it is gone. The
// kubelet unmounts the volumes after the containers have ended, and then deletes the pod (SyncTerminatedPod in pkg/kubelet/kubelet.go, canBeDeleted
// in pkg/kubelet/status/status_manager.go, Kubernetes v1.36.3). On a node without the driver, the kubelet would try to unmount for ever.
func UsesVolumes(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || !HasEnded(pod)
}

// HasStarted reports whether a container of a pod has started. A pod that waits for a volume has not started. The kubelet first mounts all volumes of
// a pod (SyncPod in pkg/kubelet/kubelet.go, Kubernetes v1.36.3).
func HasStarted(pod *corev1.Pod) bool {
	started := func(one corev1.ContainerStatus) bool {
		return one.State.Running != nil || one.State.Terminated != nil || one.ContainerID != ""
	}
	return pod.Status.Phase == corev1.PodRunning || slices.ContainsFunc(pod.Status.InitContainerStatuses, started) ||
		slices.ContainsFunc(pod.Status.ContainerStatuses, started)
}

// HasEnded reports whether all containers of a pod have ended for good. The volumes of such a pod may still be mounted: see UsesVolumes.
func HasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
