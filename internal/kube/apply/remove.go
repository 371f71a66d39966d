package apply

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Owned returns the owner's objects as the cache has them: those of the Inventory with our label and our field manager.
func (a *Applier) Owned(ctx context.Context) ([]*unstructured.Unstructured, error) {
	return a.ownedBut(ctx, nil)
}

// ownedBut is Owned without some, of which none is read.
func (a *Applier) ownedBut(ctx context.Context, kept map[Subject]bool) ([]*unstructured.Unstructured, error) {
	var owned []*unstructured.Unstructured
	for _, subject := range a.Inventory {
		if kept[subject] {
			continue
		}
		found, err := a.readFrom(ctx, a.Client, subject)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", subject, err)
		}
		if found != nil && a.Owns(found) {
			owned = append(owned, found)
		}
	}
	return owned, nil
}

// Prune deletes the owner's objects that are not in keep, as the cache has them.
func (a *Applier) Prune(ctx context.Context, keep []client.Object) ChangeSet {
	outdated, err := a.Outdated(ctx, keep)
	if err != nil {
		return ChangeSet{{Action: Failed, Err: err}}
	}
	var changes ChangeSet
	for _, object := range outdated {
		changes = append(changes, a.delete(ctx, object))
	}
	return changes
}

// Outdated returns the owner's objects that are not in keep and are not being deleted, as the cache has them.
func (a *Applier) Outdated(ctx context.Context, keep []client.Object) ([]*unstructured.Unstructured, error) {
	kept := map[Subject]bool{}
	for _, object := range keep {
		kept[SubjectOf(object)] = true
	}
	owned, err := a.ownedBut(ctx, kept)
	return slices.DeleteFunc(owned, func(object *unstructured.Unstructured) bool { return object.GetDeletionTimestamp() != nil }), err
}

// Remove deletes the objects of the Inventory that match, in reverse order, and returns the rest of them. It reads from
// the cluster, by name, and takes what has our field manager or our label: somebody may have wiped one of them. An empty
// answer means that nothing is left.
func (a *Applier) Remove(ctx context.Context, match func(Subject) bool) ChangeSet {
	var changes ChangeSet
	for i := len(a.Inventory) - 1; i >= 0; i-- {
		subject := a.Inventory[i]
		if !match(subject) {
			continue
		}
		found, err := a.readFrom(ctx, a.Live, subject)
		switch {
		case err != nil:
			changes = append(changes, Change{Subject: subject, Action: Failed, Err: err})
		case found == nil || !a.removable(found):
		case found.GetDeletionTimestamp() != nil:
			changes = append(changes, Change{Subject: subject, Action: Terminating, Finalizers: found.GetFinalizers()})
		default:
			changes = append(changes, a.delete(ctx, found))
		}
	}
	return changes
}

// RemoveMade deletes objects that pods of the owner have made: neither a label nor a field manager says so, only their names do. It reads from
// the cluster.
func (a *Applier) RemoveMade(ctx context.Context, made []client.Object) ChangeSet {
	var changes ChangeSet
	for _, object := range made {
		subject := SubjectOf(object)
		switch found, err := a.readFrom(ctx, a.Live, subject); {
		case err != nil:
			changes = append(changes, Change{Subject: subject, Action: Failed, Err: err})
		case found != nil:
			changes = append(changes, a.delete(ctx, found))
		}
	}
	return changes
}

// removable reports whether an object with a name of the Inventory is to be removed. One of a CreateOnly kind may be somebody else's,
// so that the label, which anybody can write, is not enough.
func (a *Applier) removable(found *unstructured.Unstructured) bool {
	return a.applied(found) || (a.labelled(found) && !a.CreateOnly[found.GroupVersionKind().GroupKind()])
}

// delete removes one object. Workloads go in the foreground, so that they stay visible until their pods have gone.
func (a *Applier) delete(ctx context.Context, object *unstructured.Unstructured) Change {
	policy := metav1.DeletePropagationBackground
	if kind := object.GetKind(); kind == "Deployment" || kind == "DaemonSet" {
		policy = metav1.DeletePropagationForeground
	}
	change := Delete(ctx, a.Client, object, client.PropagationPolicy(policy))
	a.Mutations.Forget(change.Subject)
	return change
}
