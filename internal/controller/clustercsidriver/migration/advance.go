package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// TakingOver is the reason of the node service's condition Progressing while the operator replaces pods of a predecessor.
const TakingOver = "TakingOver"

// leastInterval is the least time between two reads of all node pods in a migration. nodesInterval is the pause before the next attempt while the
// operator can't replace node pods yet. It is also the pause while an unwatched namespace still has a DaemonSet of a predecessor.
const (
	leastInterval = time.Second
	nodesInterval = 15 * time.Second
)

// Moved is the progress of a migration, and what Advance did.
type Moved struct {
	// Message describes the progress. It is empty when the migration has no pod to replace. Serving is the number of nodes with a ready node pod of this
	// operator or of a predecessor.
	Message string
	Serving int
	// Stalled is true if the operator replaces no pod because too many nodes are without a node pod.
	Stalled bool
	Changes apply.ChangeSet
	// Again is the delay until the next reconcile if no event comes earlier; 0 means never.
	Again time.Duration
}

// Advance continues a migration without disturbing applications. It removes the predecessor's controller, replaces the predecessor's node pods, and
// deletes the predecessor's leftovers. It replaces no node pod if a change that the new pods need has failed. Argument "ours" is our applied
// DaemonSet.
func (m *Migration) Advance(
	ctx context.Context, state State, changes apply.ChangeSet, holds driver.Holds, ours *appsv1.DaemonSet,
) (Moved, error) {
	var ended apply.ChangeSet
	var again time.Duration
	if hold := state.ControllerHold(); hold != "" && holds[driver.Controller] == hold {
		// Our controller waits only for the removal of the predecessor's controller. So the operator now removes the predecessor's controller.
		ended, again = m.endController(ctx, state, changes), controllerInterval
	}
	revisions, missed := m.clearRevisions(ctx, state)
	moved, err := m.advanceNodes(ctx, state, nodes.Lacking(changes, holds[driver.Node], ours), ours)
	cleared, failure := m.clearBindings(ctx, changes, holds)
	configMaps, failed := m.clearConfigMaps(ctx, changes, holds, ours)
	moved.Changes = slices.Concat(ended, revisions, moved.Changes, cleared, configMaps)
	moved.Again = status.MinRequeue(moved.Again, again)
	return moved, errors.Join(err, missed, failure, failed)
}

// advanceNodes replaces node pods. Argument "lacks" says what new node pods would lack. If it is not empty, advanceNodes replaces no pod.
func (m *Migration) advanceNodes(ctx context.Context, state State, lacks string, ours *appsv1.DaemonSet) (Moved, error) {
	old := state.Old
	cleared, err := m.cleanUp(ctx, state)
	if err != nil || len(old) == 0 {
		moved := Moved{Changes: cleared}
		if len(state.apart.daemonSets) > 0 {
			// The operator does not watch the namespace of these DaemonSets, so it must poll.
			moved.Again = nodesInterval
		}
		return moved, err
	}
	if lacks != "" {
		return Moved{
			Message: fmt.Sprintf("%d node pods of the predecessor stay: %s", len(old), lacks),
			Serving: len(slices.DeleteFunc(slices.Clone(old), func(pod corev1.Pod) bool { return !nodes.Serves(&pod) })), Again: nodesInterval,
		}, nil
	}
	orphaned, err := m.orphan(ctx, state)
	if err != nil || len(orphaned.With(apply.Failed)) > 0 {
		// The DaemonSet still exists, and would recreate the deleted pod.
		message := fmt.Sprintf("%d node pods of the predecessor stay until their DaemonSet can be deleted", len(old))
		return Moved{Changes: orphaned, Message: message}, err
	}
	moved, err := m.replacePods(ctx, state, ours)
	moved.Changes = append(orphaned, moved.Changes...)
	return moved, err
}

// cleanUp deletes objects that only the predecessors' pods need. It deletes ServiceAccounts and SecurityContextConstraints after the last of these
// pods has ended. Until then, it drops owner references from ServiceAccounts, so that garbage collection keeps them.
func (m *Migration) cleanUp(ctx context.Context, state State) (apply.ChangeSet, error) {
	last := len(state.Old) == 0
	var changes apply.ChangeSet
	if err := m.disownClass(ctx); err != nil {
		return nil, err
	}
	for _, predecessor := range m.Predecessors {
		left, err := predecessor.leftovers(ctx)
		if err != nil {
			return nil, err
		}
		for _, object := range left {
			_, isAccount := object.(*corev1.ServiceAccount)
			switch {
			case !last && isAccount:
				// Running pods need their ServiceAccount. Garbage collection may delete the SecurityContextConstraints, because Kubernetes checks them only when
				// a client creates a pod.
				if err := m.applier.DropOwnerReferences(ctx, object); err != nil {
					return nil, fmt.Errorf("ServiceAccount %s: %w", object.GetName(), err)
				}
			case last && object.GetDeletionTimestamp() == nil:
				changes = append(changes, apply.Delete(ctx, m.Client, object))
			}
		}
	}
	if !last {
		return changes, nil
	}
	orphaned, err := m.orphan(ctx, state)
	changes = append(changes, orphaned...)
	if err != nil || m.hasRevisions() {
		return changes, err
	}
	cleared, err := m.cleanUpNamespaces(ctx, state)
	return append(changes, cleared...), err
}

// disownClass removes the label and the owner reference of a predecessor from the StorageClass, even if the StorageClass is unmanaged. Otherwise
// garbage collection would delete the StorageClass with its owner.
func (m *Migration) disownClass(ctx context.Context) error {
	if m.Driver.StorageClass == "" {
		return nil
	}
	class := &storagev1.StorageClass{}
	err := m.Client.Get(ctx, client.ObjectKey{Name: m.Driver.StorageClass}, class)
	if err == nil {
		err = m.applier.DropOwnership(ctx, class)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("StorageClass %s: %w", m.Driver.StorageClass, err)
	}
	return nil
}

// orphan deletes the DaemonSets that function renamed returns, but not their pods. Later, the operator replaces these pods node by node, and then
// deletes the ControllerRevisions of the DaemonSets.
func (m *Migration) orphan(ctx context.Context, state State) (apply.ChangeSet, error) {
	renamed, err := m.renamed(ctx, state)
	if err != nil {
		return nil, err
	}
	var changes apply.ChangeSet
	for i := range renamed {
		changes = append(changes, apply.Delete(ctx, m.Client, &renamed[i], client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	}
	return changes, nil
}

// beside lists the predecessors' DaemonSets that this operator does not adopt. In our namespace, these are the DaemonSets with another name than
// ours. In the predecessors' own namespaces, these are all DaemonSets of the predecessors.
func (m *Migration) beside(ctx context.Context, state State) ([]appsv1.DaemonSet, error) {
	found := slices.Clone(state.apart.daemonSets)
	for _, predecessor := range m.Predecessors {
		daemonSets, err := predecessor.daemonSets(ctx)
		if err != nil {
			return nil, err
		}
		for _, daemonSet := range daemonSets {
			if daemonSet.Name != m.Driver.DaemonSet && daemonSet.Namespace == m.Namespace {
				found = append(found, daemonSet)
			}
		}
	}
	return found, nil
}

// renamed calls beside, and returns the DaemonSets of its list that have no deletionTimestamp.
func (m *Migration) renamed(ctx context.Context, state State) ([]appsv1.DaemonSet, error) {
	found, err := m.beside(ctx, state)
	return slices.DeleteFunc(found, func(daemonSet appsv1.DaemonSet) bool { return daemonSet.DeletionTimestamp != nil }), err
}

// Announce sends an event for each DaemonSet that the operator could migrate. The caller calls Announce only while no ClusterCSIDriver exists.
func (m *Migration) Announce(ctx context.Context) error {
	for _, predecessor := range m.Predecessors {
		daemonSets, err := predecessor.daemonSets(ctx)
		if err != nil {
			return err
		}
		for _, daemonSet := range daemonSets {
			if !m.announced[daemonSet.UID] && daemonSet.DeletionTimestamp == nil {
				m.announced[daemonSet.UID] = true
				m.Events.Eventf(&daemonSet, nil, corev1.EventTypeNormal, "CreateClusterCSIDriver", "Reconcile",
					"this DaemonSet of %s keeps running; to migrate it to %s without an outage, create ClusterCSIDriver %s",
					predecessor.Title, m.Driver.Operator, m.Driver.Name)
			}
		}
	}
	return nil
}
