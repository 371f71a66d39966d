package migration

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// noteRevisions records that ControllerRevisions of a predecessor's DaemonSet may still exist. An existing record stays.
func (m *Migration) noteRevisions(owner client.ObjectKey) {
	ours := client.ObjectKey{Namespace: m.Namespace, Name: m.Driver.DaemonSet}
	if _, known := m.revisions[owner]; !known && owner != ours && owner.Name != "" {
		m.revisions[owner] = true
	}
}

// hasRevisions reports whether the operator must still delete ControllerRevisions.
func (m *Migration) hasRevisions() bool {
	return slices.Contains(slices.Collect(maps.Values(m.revisions)), true)
}

// clearRevisions deletes the ControllerRevisions of deleted DaemonSets. It waits until the deletion of the DaemonSet is complete. Before that,
// Kubernetes would recreate a ControllerRevision (v1.36, pkg/controller/daemon: deleteHistory wakes up syncDaemonSet, whose cache may lag).
func (m *Migration) clearRevisions(ctx context.Context, state State) (apply.ChangeSet, error) {
	beside, err := m.beside(ctx, state)
	if err != nil {
		return nil, err
	}
	m.noteOwners(state)
	there := map[client.ObjectKey]bool{}
	for i := range beside {
		key := client.ObjectKeyFromObject(&beside[i])
		there[key], m.revisions[key] = true, true
	}
	var changes apply.ChangeSet
	byName := func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) }
	for _, owner := range slices.SortedFunc(maps.Keys(m.revisions), byName) {
		if there[owner] || !m.revisions[owner] {
			continue
		}
		left, err := m.revisionsOf(ctx, owner, func(revision *appsv1.ControllerRevision) bool { return metav1.GetControllerOf(revision) == nil })
		if err != nil {
			return changes, err
		}
		var deleted apply.ChangeSet
		for i := range left {
			deleted = append(deleted, apply.Delete(ctx, m.Client, &left[i]))
		}
		m.revisions[owner] = len(deleted.With(apply.Failed)) > 0
		changes = append(changes, deleted...)
	}
	return changes, nil
}

// noteOwners records a deleted DaemonSet of a predecessor if pods of this DaemonSet still exist. It also records the DaemonSets in namespaces that
// this operator migrates. An earlier process may have ended before it deleted the ControllerRevisions of these DaemonSets.
func (m *Migration) noteOwners(state State) {
	for _, namespace := range m.Driver.OldNamespaces() {
		if m.active(namespace) {
			m.noteRevisions(client.ObjectKey{Namespace: namespace, Name: m.Driver.DaemonSet})
		}
	}
	for i := range state.Old {
		pod := &state.Old[i]
		isOwner := func(predecessor *Predecessor) bool { return predecessor.DaemonSet == pod.Labels["app"] }
		if metav1.GetControllerOf(pod) == nil && pod.Namespace == m.Namespace && slices.ContainsFunc(m.Predecessors, isOwner) {
			m.noteRevisions(client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels["app"]})
		}
	}
}

// revisionsOf lists the matching ControllerRevisions of a DaemonSet. A ControllerRevision has the labels of the DaemonSet's pods.
func (m *Migration) revisionsOf(
	ctx context.Context, daemonSet client.ObjectKey, match func(*appsv1.ControllerRevision) bool,
) ([]appsv1.ControllerRevision, error) {
	revisions := &appsv1.ControllerRevisionList{}
	if err := m.Live.List(ctx, revisions, client.InNamespace(daemonSet.Namespace), client.MatchingLabels{"app": daemonSet.Name}); err != nil {
		return nil, fmt.Errorf("list the revisions of DaemonSet %s: %w", daemonSet.Name, err)
	}
	return slices.DeleteFunc(revisions.Items, func(revision appsv1.ControllerRevision) bool { return !match(&revision) }), nil
}
