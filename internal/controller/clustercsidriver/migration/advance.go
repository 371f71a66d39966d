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

// TakingOver is the reason of the condition Progressing of the nodes while pods of a predecessor are replaced.
const TakingOver = "TakingOver"

// leastInterval is how often node pods are looked up at most in a migration, and nodesInterval how soon again for what an event may
// not tell.
const (
	leastInterval = time.Second
	nodesInterval = 15 * time.Second
)

// Moved is how far a migration is, and what Advance did.
type Moved struct {
	// Message is empty when there is nothing to replace. Serving is the number of nodes with a plugin that is ready, ours or not.
	Message string
	Serving int
	// Stalled means that nothing more is replaced because too many nodes are without a plugin.
	Stalled bool
	Changes apply.ChangeSet
	// Again is when to look once more although no event may come.
	Again time.Duration
}

// Advance goes on as far as nobody notices: it ends the predecessor's controller, replaces its node pods, and deletes what predecessors have
// left. What was applied before, changes, must be in order, or the new pods could not work. Ours is the DaemonSet after that.
func (m *Migration) Advance(
	ctx context.Context, state State, changes apply.ChangeSet, holds driver.Holds, ours *appsv1.DaemonSet,
) (Moved, error) {
	var ended apply.ChangeSet
	var again time.Duration
	if hold := state.ControllerHold(); hold != "" && holds[driver.Controller] == hold {
		// Nothing else holds ours.
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

// advanceNodes goes on with the node pods, unless the new ones lack something.
func (m *Migration) advanceNodes(ctx context.Context, state State, lacks string, ours *appsv1.DaemonSet) (Moved, error) {
	old := state.Old
	cleared, err := m.clearUp(ctx, state)
	if err != nil || len(old) == 0 {
		moved := Moved{Changes: cleared}
		if len(state.apart.daemonSets) > 0 {
			// Nothing there is watched.
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
		// Its DaemonSet would start a pod anew.
		message := fmt.Sprintf("%d node pods of the predecessor stay until their DaemonSet can be deleted", len(old))
		return Moved{Changes: orphaned, Message: message}, err
	}
	moved, err := m.replacePods(ctx, state, ours)
	moved.Changes = append(orphaned, moved.Changes...)
	return moved, err
}

// clearUp deletes what only the pods of predecessors need, when the last of them has gone. Before that it takes off what would
// let the garbage collector delete it.
func (m *Migration) clearUp(ctx context.Context, state State) (apply.ChangeSet, error) {
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
				// Pods that run need their account, but not what they were admitted by.
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
	cleared, err := m.clearApart(ctx, state)
	return append(changes, cleared...), err
}

// disownClass takes the label and owner of a predecessor off the StorageClass, also if the user looks after it: it would go with the owner.
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

// orphan deletes DaemonSets that have another name than ours and leaves their pods running: nobody would make them anew. Their revisions
// follow.
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

// beside are the DaemonSets of predecessors beside ours: those in our namespace with another name than ours, and those in namespaces of
// their own.
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

// renamed are those of them that are not being deleted.
func (m *Migration) renamed(ctx context.Context, state State) ([]appsv1.DaemonSet, error) {
	found, err := m.beside(ctx, state)
	return slices.DeleteFunc(found, func(daemonSet appsv1.DaemonSet) bool { return daemonSet.DeletionTimestamp != nil }), err
}

// Announce says, while nobody has asked for the driver, what could be migrated.
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
					"this DaemonSet of %s goes on running; to let %s take it over without a pause, create ClusterCSIDriver %s",
					predecessor.Title, m.Driver.Operator, m.Driver.Name)
			}
		}
	}
	return nil
}
