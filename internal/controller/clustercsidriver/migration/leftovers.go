package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// superseded lists the named ClusterRoleBindings that grant rights only to our controller. Predecessors or earlier versions of this operator created
// them, and our controller now has other bindings. The applier does not prune the superseded bindings, because they lack our label.
func (m *Migration) superseded(ctx context.Context, names []string) ([]client.Object, error) {
	var found []client.Object
	for _, name := range names {
		binding := &rbacv1.ClusterRoleBinding{}
		if err := m.Live.Get(ctx, client.ObjectKey{Name: name}, binding); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("look for ClusterRoleBinding %s of a predecessor: %w", name, err)
		}
		others := slices.ContainsFunc(binding.Subjects, func(subject rbacv1.Subject) bool {
			return subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != m.Namespace || subject.Name != m.Driver.ControllerServiceAccount()
		})
		if len(binding.Subjects) > 0 && !others {
			found = append(found, binding)
		}
	}
	return found, nil
}

// clearBindings deletes superseded ClusterRoleBindings and obsolete ClusterRoles once the operator has applied its own bindings and workloads. After
// it has deleted all of them, it does not look for them again until Reset.
func (m *Migration) clearBindings(ctx context.Context, changes apply.ChangeSet, holds driver.Holds) (apply.ChangeSet, error) {
	needed := changes.Where(func(change apply.Change) bool {
		return change.Subject.Group == rbacv1.GroupName || change.Subject.Kind == "ServiceAccount"
	})
	workloads := changes.Where(func(change apply.Change) bool { return change.Subject.Group == appsv1.GroupName })
	if m.bindingsCleared || len(workloads) == 0 || holds[driver.Controller] != "" ||
		len(needed.With(apply.Failed, apply.Terminating)) > 0 || len(workloads.With(apply.Failed)) > 0 {
		return nil, nil
	}
	names := m.Driver.Obsolete.ClusterRoleBindings
	// If the operator created all workloads, no driver existed before. Objects of other kinds don't show whether a driver existed: the cache has only
	// our objects, so an adopted object of these kinds counts as created.
	if len(workloads.With(apply.Created)) < len(workloads) {
		for _, predecessor := range m.Predecessors {
			names = slices.Concat(names, predecessor.ClusterRoleBindings)
		}
	}
	found, err := m.superseded(ctx, names)
	if err == nil {
		var roles []client.Object
		roles, err = readAll[rbacv1.ClusterRole](ctx, m, "", m.Driver.Obsolete.ClusterRoles)
		found = append(found, roles...)
	}
	var cleared apply.ChangeSet
	for _, object := range found {
		cleared = append(cleared, apply.Delete(ctx, m.Client, object))
	}
	m.bindingsCleared = err == nil && len(cleared.With(apply.Failed)) == 0
	return cleared, err
}

// readAll reads objects by name, and returns the existing objects.
func readAll[T any, P interface {
	*T
	client.Object
}](ctx context.Context, m *Migration, namespace string, names []string) ([]client.Object, error) {
	var found []client.Object
	for _, name := range names {
		object := P(new(T))
		err := m.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		switch {
		case err == nil:
			found = append(found, object)
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("look for %s of a predecessor: %w", name, err)
		}
	}
	return found, nil
}

// clearConfigMaps deletes obsolete ConfigMaps once our node pods are rolled out. It keeps a ConfigMap that a workload still mounts. That workload
// belongs to another driver, whose operator deletes the ConfigMap later. After a check without an error, clearConfigMaps does not look for ConfigMaps
// again until Reset.
func (m *Migration) clearConfigMaps(
	ctx context.Context, changes apply.ChangeSet, holds driver.Holds, ours *appsv1.DaemonSet,
) (apply.ChangeSet, error) {
	if m.configMapsCleared || len(m.Driver.Obsolete.ConfigMaps) == 0 || len(holds) > 0 || ours == nil ||
		len(changes.With(apply.Unchanged, apply.LeftAlone)) < len(changes) {
		return nil, nil
	}
	if state := ours.Status; state.ObservedGeneration < ours.Generation || state.UpdatedNumberScheduled < state.DesiredNumberScheduled {
		return nil, nil
	}
	found, err := readAll[corev1.ConfigMap](ctx, m, m.Namespace, m.Driver.Obsolete.ConfigMaps)
	if err != nil {
		return nil, err
	}
	var cleared apply.ChangeSet
	if len(found) > 0 {
		mounted, err := m.mountedConfigMaps(ctx)
		if err != nil {
			return nil, err
		}
		for _, object := range found {
			if !mounted[object.GetName()] {
				cleared = append(cleared, apply.Delete(ctx, m.Client, object))
			}
		}
	}
	m.configMapsCleared = len(cleared.With(apply.Failed)) == 0
	return cleared, nil
}

// mountedConfigMaps returns which ConfigMaps the workloads in the namespace mount. It reads the workloads live.
func (m *Migration) mountedConfigMaps(ctx context.Context) (map[string]bool, error) {
	deployments, daemonSets := &appsv1.DeploymentList{}, &appsv1.DaemonSetList{}
	err := errors.Join(m.Live.List(ctx, deployments, client.InNamespace(m.Namespace)), m.Live.List(ctx, daemonSets, client.InNamespace(m.Namespace)))
	if err != nil {
		return nil, fmt.Errorf("list the Deployments and DaemonSets of namespace %s, to keep the ConfigMaps that they mount: %w", m.Namespace, err)
	}
	mounted := map[string]bool{}
	note := func(template corev1.PodTemplateSpec) {
		for _, volume := range template.Spec.Volumes {
			if volume.ConfigMap != nil {
				mounted[volume.ConfigMap.Name] = true
			}
		}
	}
	for _, deployment := range deployments.Items {
		note(deployment.Spec.Template)
	}
	for _, daemonSet := range daemonSets.Items {
		note(daemonSet.Spec.Template)
	}
	return mounted, nil
}

// RemoveLeftovers deletes objects that the predecessors' pods needed. A removal calls it after the workloads are gone. If this operator has not
// adopted the DaemonSet of a predecessor, that predecessor's driver stays, and so do the objects.
func (m *Migration) RemoveLeftovers(ctx context.Context, state State) (apply.ChangeSet, error) {
	var removed apply.ChangeSet
	for _, predecessor := range m.Predecessors {
		left, err := predecessor.leftovers(ctx)
		if err != nil {
			return removed, err
		}
		if !m.bindingsCleared {
			bindings, err := m.superseded(ctx, predecessor.ClusterRoleBindings)
			if err != nil {
				return removed, err
			}
			left = append(left, bindings...)
		}
		discarded, err := m.discardLeft(ctx, predecessor, left)
		removed = append(removed, discarded...)
		if err != nil {
			return removed, err
		}
	}
	// ControllerRevisions can be the only trace of a migration, because an earlier process may have ended before it deleted them.
	for _, predecessor := range m.Predecessors {
		m.noteRevisions(client.ObjectKey{Namespace: m.Namespace, Name: predecessor.DaemonSet})
	}
	revisions, err := m.clearRevisions(ctx, state)
	removed = append(removed, revisions...)
	if err != nil || len(removed.With(apply.Failed)) > 0 {
		return removed, err
	}
	cleared, err := m.cleanUpNamespaces(ctx, state)
	return append(removed, cleared...), err
}

// discardLeft deletes a predecessor's objects unless the predecessor's DaemonSet exists.
func (m *Migration) discardLeft(ctx context.Context, predecessor *Predecessor, left []client.Object) (apply.ChangeSet, error) {
	if len(left) == 0 {
		return nil, nil
	}
	// Read live, because the cache may still lack a DaemonSet that exists.
	daemonSets := &appsv1.DaemonSetList{}
	if err := m.Live.List(ctx, daemonSets, client.InNamespace(m.Namespace)); err != nil {
		return nil, fmt.Errorf("look for DaemonSet %s of %s: %w", predecessor.DaemonSet, predecessor.Title, err)
	}
	if slices.ContainsFunc(daemonSets.Items, func(d appsv1.DaemonSet) bool { return d.Name == predecessor.DaemonSet }) {
		return nil, nil
	}
	var removed apply.ChangeSet
	for _, object := range left {
		removed = append(removed, apply.Delete(ctx, m.Client, object))
	}
	return removed, nil
}

// RemoveOrphans deletes node pods that a migration left without an owner. It returns the pods that remain, and the workloads that the migration is
// deleting. Pods of such workloads lose their owner later.
func (m *Migration) RemoveOrphans(ctx context.Context, state State) (apply.ChangeSet, error) {
	changes, err := m.ending(ctx, state)
	if err != nil {
		return nil, err
	}
	for i := range state.Old {
		pod := &state.Old[i]
		switch {
		case metav1.GetControllerOf(pod) != nil:
			// The pod stays, because its DaemonSet would recreate it.
		case pod.DeletionTimestamp != nil:
			changes = append(changes, terminating(corev1.SchemeGroupVersion.WithKind("Pod"), pod))
		default:
			changes = append(changes, apply.Delete(ctx, m.Client, pod))
		}
	}
	return changes, nil
}

// ending lists workloads of predecessors that are being deleted. It also lists pods of predecessors' controllers whose Deployment is gone.
func (m *Migration) ending(ctx context.Context, state State) (apply.ChangeSet, error) {
	daemonSets := slices.Clone(state.apart.daemonSets)
	for _, predecessor := range m.Predecessors {
		own, err := predecessor.daemonSets(ctx)
		if err != nil {
			return nil, err
		}
		daemonSets = append(daemonSets, slices.DeleteFunc(own, func(d appsv1.DaemonSet) bool {
			// A DaemonSet of our name belongs to this operator.
			return d.Namespace != m.Namespace || d.Name == m.Driver.DaemonSet
		})...)
	}
	var changes apply.ChangeSet
	for i := range daemonSets {
		if daemonSets[i].DeletionTimestamp != nil {
			changes = append(changes, terminating(appsv1.SchemeGroupVersion.WithKind("DaemonSet"), &daemonSets[i]))
		}
	}
	for i := range state.apart.deployments {
		if state.apart.deployments[i].DeletionTimestamp != nil {
			changes = append(changes, terminating(appsv1.SchemeGroupVersion.WithKind("Deployment"), &state.apart.deployments[i]))
		}
	}
	for i := range state.apart.controllers {
		if len(state.apart.deployments) == 0 {
			changes = append(changes, terminating(corev1.SchemeGroupVersion.WithKind("Pod"), &state.apart.controllers[i]))
		}
	}
	return changes, nil
}

func terminating(kind schema.GroupVersionKind, object client.Object) apply.Change {
	subject := apply.Subject{GroupVersionKind: kind, ObjectKey: client.ObjectKeyFromObject(object)}
	return apply.Change{Subject: subject, Action: apply.Terminating, Finalizers: object.GetFinalizers()}
}

// NamesakeRuns reports whether another operator with the same name as this operator runs. The other operator drops its finalizers itself.
func (m *Migration) NamesakeRuns(ctx context.Context) (bool, error) {
	namesake := m.Predecessor(m.Driver.Operator)
	if namesake == nil {
		return false, nil
	}
	running, err := namesake.running(ctx)
	return running != nil, err
}
