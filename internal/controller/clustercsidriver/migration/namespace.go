package migration

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// controllerInterval is the time between two checks whether a deleted controller is gone. Until the deleted controller is gone, no controller
// provisions volumes.
const controllerInterval = 2 * time.Second

// apart describes the driver's pods in the predecessors' own namespaces. The operator does not watch these namespaces, but reads them live until the
// driver is gone there.
type apart struct {
	daemonSets  []appsv1.DaemonSet
	deployments []appsv1.Deployment
	// nodes and controllers are the running pods in namespaces that this operator may migrate.
	nodes, controllers []corev1.Pod
	// evidence names the driver's pods in namespaces that this operator may not migrate. It is empty if there are none.
	evidence string
}

// active reports whether the operator is migrating a namespace.
func (m *Migration) active(namespace string) bool { return m.mine[namespace] && !m.over[namespace] }

// lowPriority reports whether the scheduler would evict a predecessor's node pod, even if pods use volumes on that node. Our node pods have priority
// system-node-critical, and can't run beside the predecessor's node pod. So the scheduler evicts a pod of lower priority to make room for our node
// pod.
func lowPriority(pod *corev1.Pod) bool {
	const systemNodeCritical = 2000001000
	return pod.Spec.Priority == nil || *pod.Spec.Priority < systemNodeCritical
}

// observeApart reads the predecessors' namespaces. The operator has no RBAC in such a namespace if the cluster-storage-operator found nothing to
// migrate there. Without that RBAC, the operator migrates nothing there, but our pods still avoid nodes with a pod of the predecessor.
func (m *Migration) observeApart(ctx context.Context) (apart, error) {
	var found apart
	if m.mine == nil {
		m.mine, m.over = map[string]bool{}, map[string]bool{}
	}
	for _, namespace := range m.Driver.OldNamespaces() {
		if m.over[namespace] {
			continue
		}
		pods, err := m.podsIn(ctx, namespace)
		if err != nil {
			return found, err
		}
		if err := m.checkAccess(ctx, namespace); err != nil {
			return found, err
		}
		switch {
		case m.mine[namespace]:
			found.nodes, found.controllers = append(found.nodes, pods.nodes...), append(found.controllers, pods.controllers...)
			if err := m.oldWorkloads(ctx, namespace, &found); err != nil {
				return found, err
			}
		case len(pods.nodes)+len(pods.controllers) == 0:
			m.over[namespace] = true
		default:
			for _, pod := range slices.Concat(pods.nodes, pods.controllers) {
				found.evidence += fmt.Sprintf("Pod %s %s;", pod.UID, pod.ResourceVersion)
			}
		}
	}
	return found, nil
}

// podsIn reads live the driver's pods in a predecessor's namespace.
func (m *Migration) podsIn(ctx context.Context, namespace string) (apart, error) {
	pods := &corev1.PodList{}
	apps := client.MatchingLabelsSelector{Selector: driver.WithApp(append(m.Driver.NodeApps(), m.Driver.Deployment)...)}
	if err := m.Live.List(ctx, pods, client.InNamespace(namespace), apps); err != nil {
		return apart{}, fmt.Errorf("look for pods of a predecessor in namespace %s: %w", namespace, err)
	}
	var found apart
	for _, pod := range pods.Items {
		switch {
		case volume.HasEnded(&pod):
		case pod.Labels["app"] == m.Driver.Deployment:
			found.controllers = append(found.controllers, pod)
		case m.Driver.MountsSocket(pod.Spec.Volumes):
			found.nodes = append(found.nodes, pod)
		}
	}
	return found, nil
}

// checkAccess records in field "mine" whether the operator has the right to replace pods in a namespace.
func (m *Migration) checkAccess(ctx context.Context, namespace string) error {
	if m.mine[namespace] {
		return nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "delete", Version: "v1", Resource: "pods"},
	}}
	if err := m.Client.Create(ctx, review); err != nil {
		return fmt.Errorf("ask for access to namespace %s: %w", namespace, err)
	}
	m.mine[namespace] = review.Status.Allowed
	return nil
}

func (m *Migration) oldWorkloads(ctx context.Context, namespace string, found *apart) error {
	daemonSet, deployment := &appsv1.DaemonSet{}, &appsv1.Deployment{}
	switch err := m.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: m.Driver.DaemonSet}, daemonSet); {
	case err == nil && m.Driver.MountsSocket(daemonSet.Spec.Template.Spec.Volumes):
		found.daemonSets = append(found.daemonSets, *daemonSet)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("look for DaemonSet %s/%s of a predecessor: %w", namespace, m.Driver.DaemonSet, err)
	}
	switch err := m.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: m.Driver.Deployment}, deployment); {
	case err == nil:
		found.deployments = append(found.deployments, *deployment)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("look for Deployment %s/%s of a predecessor: %w", namespace, m.Driver.Deployment, err)
	}
	return nil
}

// ControllerHold returns the message that our controller waits for the removal of the predecessor's controller. It returns an empty string if no
// controller of a predecessor is left. Each controller takes a leader Lease in its own namespace. So the Leases do not prevent two controllers from
// working at the same time.
func (s State) ControllerHold() string {
	if len(s.apart.deployments)+len(s.apart.controllers) == 0 {
		return ""
	}
	var names []string
	for i := range s.apart.deployments {
		names = append(names, "Deployment "+client.ObjectKeyFromObject(&s.apart.deployments[i]).String())
	}
	for i := range s.apart.controllers {
		names = append(names, "Pod "+client.ObjectKeyFromObject(&s.apart.controllers[i]).String())
	}
	slices.Sort(names)
	return "waiting for the removal of the predecessor's controller, because two controllers must not work on the same volumes: " + status.Shorten(names)
}

// endController deletes the predecessor's controller once the operator has applied everything that our controller needs.
func (m *Migration) endController(ctx context.Context, state State, changes apply.ChangeSet) apply.ChangeSet {
	needed := []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "CSIDriver"}
	for _, change := range changes.With(apply.Failed, apply.Terminating) {
		if slices.Contains(needed, change.Subject.Kind) {
			return nil
		}
	}
	var deleted apply.ChangeSet
	for i := range state.apart.deployments {
		if deployment := &state.apart.deployments[i]; deployment.DeletionTimestamp == nil {
			// Foreground deletion keeps the Deployment visible until its pods are gone.
			deleted = append(deleted, apply.Delete(ctx, m.Client, deployment, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		}
	}
	return deleted
}

// cleanUpNamespaces deletes leftovers in the predecessors' namespaces after the last pod has ended. It first deletes objects with the same names as
// ours. Last, it deletes the RoleBinding that gives this operator access. The namespace itself stays.
func (m *Migration) cleanUpNamespaces(ctx context.Context, state State) (apply.ChangeSet, error) {
	var changes apply.ChangeSet
	old := state.apart
	if len(old.nodes)+len(old.controllers)+len(old.deployments)+len(old.daemonSets) > 0 {
		return nil, nil
	}
	for _, namespace := range m.Driver.OldNamespaces() {
		if !m.active(namespace) {
			continue
		}
		for _, subject := range m.leftIn(namespace) {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(subject.GroupVersionKind)
			err := m.Live.Get(ctx, subject.ObjectKey, object)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return changes, fmt.Errorf("look for %s of a predecessor: %w", subject, err)
			}
			changes = append(changes, apply.Delete(ctx, m.Client, object))
		}
		if len(changes.With(apply.Failed)) > 0 {
			continue
		}
		// The operator must list RoleBindings, because its right to get RoleBindings covers only RoleBindings with the names of the driver's objects.
		bindings := &rbacv1.RoleBindingList{}
		if err := m.Live.List(ctx, bindings, client.InNamespace(namespace), client.MatchingFields{"metadata.name": m.Driver.NamespaceRole()}); err != nil {
			return changes, fmt.Errorf("look for the RBAC in namespace %s: %w", namespace, err)
		}
		for i := range bindings.Items {
			changes = append(changes, apply.Delete(ctx, m.Client, &bindings.Items[i]))
		}
		m.over[namespace] = len(changes.With(apply.Failed)) == 0
	}
	return changes, nil
}

// leftIn lists the possible leftovers in a predecessor's namespace, in deletion order.
func (m *Migration) leftIn(namespace string) []apply.Subject {
	var left []apply.Subject
	for _, subject := range slices.Backward(m.applier.Inventory) {
		if subject.Namespace == m.Namespace && subject.Group != appsv1.GroupName {
			subject.Namespace = namespace
			left = append(left, subject)
		}
	}
	return left
}
