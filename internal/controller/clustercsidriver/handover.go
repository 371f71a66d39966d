package clustercsidriver

import (
	"context"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/status"
	"github.com/csi-operators/csi-operators/internal/volume"
)

// handoverInterval is how soon to look again for a controller that was deleted: until it has gone, nobody makes volumes.
const handoverInterval = 2 * time.Second

// elsewhere is what predecessors run of the driver in namespaces of their own. Nothing of it is watched: it is read from the cluster,
// until it has gone once.
type elsewhere struct {
	// mine are the namespaces in which this operator may take over, over those in which there is nothing left to do.
	mine, over map[string]bool
	// accepted means that nodes in use may lose their plugin for a while.
	accepted bool
	// What there is, as of the reconcile that is under way.
	daemonSets  []appsv1.DaemonSet
	deployments []appsv1.Deployment
	// nodes and controllers are the pods that have not ended.
	nodes, controllers []corev1.Pod
}

// active tells whether node pods in a namespace are taken over.
func (e elsewhere) active(namespace string) bool { return e.mine[namespace] && !e.over[namespace] }

// weak tells whether the scheduler would evict a former node pod for one of ours, whoever uses volumes there: ours are critical for their
// nodes, and can't run beside it.
func weak(pod *corev1.Pod) bool {
	const systemNodeCritical = 2000001000
	return pod.Spec.Priority == nil || *pod.Spec.Priority < systemNodeCritical
}

// lookElsewhere reads what there is in the old namespaces. Where the operator has no rights, because nothing was there when the
// cluster-storage-operator looked, it takes over nothing; its pods stay away from nodes that have one of the old ones all the same.
func (r *Reconciler) lookElsewhere(ctx context.Context, cr *operatorv1.ClusterCSIDriver) error {
	found := elsewhere{mine: r.elsewhere.mine, over: r.elsewhere.over, accepted: cr.Annotations[AcceptRemountAnnotation] == "true"}
	if found.mine == nil {
		found.mine, found.over = map[string]bool{}, map[string]bool{}
	}
	for _, namespace := range r.Driver.OldNamespaces() {
		if found.over[namespace] {
			continue
		}
		pods, err := r.podsIn(ctx, namespace)
		if err != nil {
			return err
		}
		if err := r.askFor(ctx, namespace, found.mine); err != nil {
			return err
		}
		switch {
		case found.mine[namespace]:
			found.nodes, found.controllers = append(found.nodes, pods.nodes...), append(found.controllers, pods.controllers...)
			if err := r.oldWorkloads(ctx, namespace, &found); err != nil {
				return err
			}
		case len(pods.nodes)+len(pods.controllers) == 0:
			found.over[namespace] = true
		}
	}
	r.elsewhere = found
	return nil
}

// podsIn are the pods of the driver in an old namespace, as the cluster has them.
func (r *Reconciler) podsIn(ctx context.Context, namespace string) (elsewhere, error) {
	pods := &corev1.PodList{}
	apps := client.MatchingLabelsSelector{Selector: withApp(append(r.Driver.NodeApps(), r.Driver.Deployment))}
	if err := r.Live.List(ctx, pods, client.InNamespace(namespace), apps); err != nil {
		return elsewhere{}, fmt.Errorf("look for pods of a former operator in namespace %s: %w", namespace, err)
	}
	var found elsewhere
	for _, pod := range pods.Items {
		switch {
		case volume.IsFinished(&pod):
		case pod.Labels["app"] == r.Driver.Deployment:
			found.controllers = append(found.controllers, pod)
		case mountsSocket(pod.Spec.Volumes, r.Driver.Name):
			found.nodes = append(found.nodes, pod)
		}
	}
	return found, nil
}

// askFor finds out whether the operator may replace pods in a namespace.
func (r *Reconciler) askFor(ctx context.Context, namespace string, mine map[string]bool) error {
	if mine[namespace] {
		return nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "delete", Version: "v1", Resource: "pods"},
	}}
	if err := r.Client.Create(ctx, review); err != nil {
		return fmt.Errorf("ask for the right to take over in namespace %s: %w", namespace, err)
	}
	mine[namespace] = review.Status.Allowed
	return nil
}

func (r *Reconciler) oldWorkloads(ctx context.Context, namespace string, found *elsewhere) error {
	daemonSet, deployment := &appsv1.DaemonSet{}, &appsv1.Deployment{}
	switch err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.Driver.DaemonSet}, daemonSet); {
	case err == nil && mountsSocket(daemonSet.Spec.Template.Spec.Volumes, r.Driver.Name):
		found.daemonSets = append(found.daemonSets, *daemonSet)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("look for DaemonSet %s/%s of a former operator: %w", namespace, r.Driver.DaemonSet, err)
	}
	switch err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.Driver.Deployment}, deployment); {
	case err == nil:
		found.deployments = append(found.deployments, *deployment)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("look for Deployment %s/%s of a former operator: %w", namespace, r.Driver.Deployment, err)
	}
	return nil
}

// holdController lets our controller wait for the end of the former one: leases are of a namespace, so that both would lead. It tells
// whether there is nothing else that ours waits for.
func (r *Reconciler) holdController(waits held) bool {
	if waits[driver.Controller] != "" || len(r.elsewhere.deployments)+len(r.elsewhere.controllers) == 0 {
		return false
	}
	var names []string
	for i := range r.elsewhere.deployments {
		names = append(names, "Deployment "+client.ObjectKeyFromObject(&r.elsewhere.deployments[i]).String())
	}
	for i := range r.elsewhere.controllers {
		names = append(names, "Pod "+client.ObjectKeyFromObject(&r.elsewhere.controllers[i]).String())
	}
	slices.Sort(names)
	waits[driver.Controller] = "waiting for the end of the former controller, beside which a second one would work on the same volumes: " +
		status.Shorten(names)
	return true
}

// endController deletes the former controller when all is there that ours needs.
func (r *Reconciler) endController(ctx context.Context, changes apply.ChangeSet) apply.ChangeSet {
	needed := []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "CSIDriver"}
	for _, change := range changes.With(apply.Failed, apply.Terminating) {
		if slices.Contains(needed, change.Subject.Kind) {
			return nil
		}
	}
	var deleted apply.ChangeSet
	for i := range r.elsewhere.deployments {
		if deployment := &r.elsewhere.deployments[i]; deployment.DeletionTimestamp == nil {
			// In the foreground it stays visible until its pods have gone.
			deleted = append(deleted, apply.Delete(ctx, r.Client, deployment, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		}
	}
	return deleted
}

// clearElsewhere deletes what the former pods needed, after the last of them: what is called as ours is, in their namespace. The right
// to do so goes last. The namespace stays.
func (r *Reconciler) clearElsewhere(ctx context.Context) (apply.ChangeSet, error) {
	var changes apply.ChangeSet
	old := r.elsewhere
	if len(old.nodes)+len(old.controllers)+len(old.deployments)+len(old.daemonSets) > 0 {
		return nil, nil
	}
	for _, namespace := range r.Driver.OldNamespaces() {
		if !old.active(namespace) {
			continue
		}
		for _, subject := range r.leftIn(namespace) {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(subject.GroupVersionKind)
			err := r.Live.Get(ctx, subject.ObjectKey, object)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return changes, fmt.Errorf("look for %s of a former operator: %w", subject, err)
			}
			changes = append(changes, apply.Delete(ctx, r.Client, object))
		}
		if len(changes.With(apply.Failed)) > 0 {
			continue
		}
		// To list is a right that is not narrowed to the names of what is ours.
		lent := &rbacv1.RoleBindingList{}
		if err := r.Live.List(ctx, lent, client.InNamespace(namespace), client.MatchingFields{"metadata.name": r.Driver.NamespaceRole()}); err != nil {
			return changes, fmt.Errorf("look for the rights in namespace %s: %w", namespace, err)
		}
		for i := range lent.Items {
			changes = append(changes, apply.Delete(ctx, r.Client, &lent.Items[i]))
		}
		old.over[namespace] = len(changes.With(apply.Failed)) == 0
	}
	return changes, nil
}

// leftIn are the objects that a predecessor may have left in its namespace, in the order in which they are deleted.
func (r *Reconciler) leftIn(namespace string) []apply.Subject {
	var left []apply.Subject
	for _, subject := range slices.Backward(r.applier.Known) {
		if subject.Namespace == r.Namespace && subject.Group != appsv1.GroupName {
			subject.Namespace = namespace
			left = append(left, subject)
		}
	}
	return left
}
