package nodes

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// Objects returns the objects that a roll-out needs besides the driver's own objects. The caller applies these objects. Once Objects no longer
// returns an object, the caller deletes the object. So after a restart, the operator deletes the objects that its previous process applied.
func (u *Updater) Objects() []client.Object {
	if u.puller == nil {
		return nil
	}
	return []client.Object{u.puller.DeepCopy()}
}

// ImagePods identifies the DaemonSet that Objects may return, so that the operator can delete this DaemonSet.
func ImagePods(namespace, daemonSet string) apply.Subject {
	return apply.Subject{
		GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		ObjectKey:        client.ObjectKey{Namespace: namespace, Name: driver.ImagesOf(daemonSet)},
	}
}

// setPuller decides which DaemonSet pulls images. It reports whether the caller has something to apply or delete.
func (u *Updater) setPuller(daemonSet *appsv1.DaemonSet) bool {
	before := u.puller
	u.puller = nil
	if len(u.state.batch) > 0 {
		u.puller = imagePods(daemonSet, u.template.hash, u.state.batch, u.state.images)
	}
	return !equality.Semantic.DeepEqual(before, u.puller)
}

// pullPods lists the cached pods that pull images of the newest template, by node.
func (u *Updater) pullPods(ctx context.Context, daemonSet *appsv1.DaemonSet) (map[string]*corev1.Pod, error) {
	if len(u.state.batch) == 0 {
		return nil, nil
	}
	pods := &corev1.PodList{}
	ours := client.MatchingLabels{"app": driver.ImagesOf(daemonSet.Name), pullTemplate: u.template.hash}
	if err := u.Client.List(ctx, pods, client.InNamespace(daemonSet.Namespace), ours, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the pods that pull images: %w", err)
	}
	found := map[string]*corev1.Pod{}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil {
			found[cmp.Or(pod.Spec.NodeName, intended(pod))] = pod
		}
	}
	return found, nil
}
