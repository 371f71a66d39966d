package clustercsidriver

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/driver"
)

// superseded are ClusterRoleBindings of operators before this one, or of an earlier version of it, that give nobody but our controller
// rights, which it has from other bindings or needs no more. They have no label of ours.
func (r *Reconciler) superseded(ctx context.Context, names []string) ([]client.Object, error) {
	var found []client.Object
	for _, name := range names {
		binding := &rbacv1.ClusterRoleBinding{}
		if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, binding); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("look for ClusterRoleBinding %s of an operator before this one: %w", name, err)
		}
		others := slices.ContainsFunc(binding.Subjects, func(subject rbacv1.Subject) bool {
			return subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != r.Namespace || subject.Name != r.Driver.ControllerServiceAccount()
		})
		if len(binding.Subjects) > 0 && !others {
			found = append(found, binding)
		}
	}
	return found, nil
}

// clearBindings deletes superseded ClusterRoleBindings when those of ours are there, and the workloads that need them are applied. It reads
// them once in the life of a ClusterCSIDriver.
func (r *Reconciler) clearBindings(ctx context.Context, changes apply.ChangeSet, waits held) (apply.ChangeSet, error) {
	needed := changes.Where(func(change apply.Change) bool {
		return change.Subject.Group == rbacv1.GroupName || change.Subject.Kind == "ServiceAccount"
	})
	workloads := changes.Where(func(change apply.Change) bool { return change.Subject.Group == appsv1.GroupName })
	if r.bindingsCleared || len(workloads) == 0 || waits[driver.Controller] != "" ||
		len(needed.With(apply.Failed, apply.Terminating)) > 0 || len(workloads.With(apply.Failed)) > 0 {
		return nil, nil
	}
	names := r.Driver.ObsoleteBindings
	// Where all workloads were created, there was no driver before. Of other kinds the cache has only what is ours: what is adopted counts
	// as created.
	if len(workloads.With(apply.Created)) < len(workloads) {
		for _, predecessor := range r.Predecessors {
			names = slices.Concat(names, predecessor.ClusterRoleBindings)
		}
	}
	bindings, err := r.superseded(ctx, names)
	var cleared apply.ChangeSet
	for _, binding := range bindings {
		cleared = append(cleared, apply.Delete(ctx, r.Client, binding))
	}
	r.bindingsCleared = err == nil && len(cleared.With(apply.Failed)) == 0
	return cleared, err
}

// removeLeftovers deletes what predecessors' node pods and controllers needed, in a removal, when their workloads have gone. A predecessor
// whose DaemonSet was not adopted keeps all of it: its driver stays.
func (r *Reconciler) removeLeftovers(ctx context.Context) error {
	for _, predecessor := range r.Predecessors {
		left, err := predecessor.leftovers(ctx)
		if err != nil {
			return err
		}
		if !r.bindingsCleared {
			bindings, err := r.superseded(ctx, predecessor.ClusterRoleBindings)
			if err != nil {
				return err
			}
			left = append(left, bindings...)
		}
		if err := r.discardLeft(ctx, predecessor, left); err != nil {
			return err
		}
	}
	return nil
}

// discardLeft deletes objects unless the DaemonSet of their predecessor is there.
func (r *Reconciler) discardLeft(ctx context.Context, predecessor *Predecessor, left []client.Object) error {
	if len(left) == 0 {
		return nil
	}
	// The cache may lag.
	daemonSets := &appsv1.DaemonSetList{}
	if err := r.Live.List(ctx, daemonSets, client.InNamespace(r.Namespace)); err != nil {
		return fmt.Errorf("look for DaemonSet %s of %s: %w", predecessor.DaemonSet, predecessor.Title, err)
	}
	if slices.ContainsFunc(daemonSets.Items, func(d appsv1.DaemonSet) bool { return d.Name == predecessor.DaemonSet }) {
		return nil
	}
	var removed apply.ChangeSet
	for _, object := range left {
		removed = append(removed, apply.Delete(ctx, r.Client, object))
	}
	logChanges(ctx, removed)
	return removed.Err()
}

// discardOrphans deletes node pods that a take-over has left without a DaemonSet, and returns those that are still there, with the workloads
// that a take-over has begun to delete: their pods have no other owner before these have gone.
func (r *Reconciler) discardOrphans(ctx context.Context) (apply.ChangeSet, error) {
	changes, err := r.ending(ctx)
	if err != nil {
		return nil, err
	}
	old, err := r.oldPods(ctx)
	if err != nil {
		return nil, err
	}
	for i := range old {
		pod := &old[i]
		switch {
		case metav1.GetControllerOf(pod) != nil:
			// Its DaemonSet would start it anew.
		case pod.DeletionTimestamp != nil:
			changes = append(changes, terminating(corev1.SchemeGroupVersion.WithKind("Pod"), pod))
		default:
			changes = append(changes, apply.Delete(ctx, r.Client, pod))
		}
	}
	return changes, nil
}

// ending are workloads of predecessors that are being deleted, and pods of controllers whose Deployment has gone.
func (r *Reconciler) ending(ctx context.Context) (apply.ChangeSet, error) {
	daemonSets := slices.Clone(r.elsewhere.daemonSets)
	for _, predecessor := range r.Predecessors {
		own, err := predecessor.daemonSets(ctx)
		if err != nil {
			return nil, err
		}
		daemonSets = append(daemonSets, slices.DeleteFunc(own, func(d appsv1.DaemonSet) bool {
			// One of our name is among our workloads.
			return d.Namespace != r.Namespace || d.Name == r.Driver.DaemonSet
		})...)
	}
	var changes apply.ChangeSet
	for i := range daemonSets {
		if daemonSets[i].DeletionTimestamp != nil {
			changes = append(changes, terminating(appsv1.SchemeGroupVersion.WithKind("DaemonSet"), &daemonSets[i]))
		}
	}
	for i := range r.elsewhere.deployments {
		if r.elsewhere.deployments[i].DeletionTimestamp != nil {
			changes = append(changes, terminating(appsv1.SchemeGroupVersion.WithKind("Deployment"), &r.elsewhere.deployments[i]))
		}
	}
	for i := range r.elsewhere.controllers {
		if len(r.elsewhere.deployments) == 0 {
			changes = append(changes, terminating(corev1.SchemeGroupVersion.WithKind("Pod"), &r.elsewhere.controllers[i]))
		}
	}
	return changes, nil
}

func terminating(kind schema.GroupVersionKind, object client.Object) apply.Change {
	subject := apply.Subject{GroupVersionKind: kind, ObjectKey: client.ObjectKeyFromObject(object)}
	return apply.Change{Subject: subject, Action: apply.Terminating, Finalizers: object.GetFinalizers()}
}
