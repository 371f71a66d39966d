package apply

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Owned returns the cached objects of the Inventory that have our label and our field manager.
func (a *Applier) Owned(ctx context.Context) ([]*unstructured.Unstructured, error) {
	return a.ownedBut(ctx, nil)
}

// ownedBut returns the same objects as Owned, except for the objects in argument "kept". It does not read the objects in "kept".
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

// Prune deletes the owned objects that are not in argument "keep". It finds the owned objects in the cache.
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

// Outdated returns the owned objects that Prune would delete.
func (a *Applier) Outdated(ctx context.Context, keep []client.Object) ([]*unstructured.Unstructured, error) {
	kept := map[Subject]bool{}
	for _, object := range keep {
		kept[SubjectOf(object)] = true
	}
	owned, err := a.ownedBut(ctx, kept)
	return slices.DeleteFunc(owned, func(object *unstructured.Unstructured) bool { return object.GetDeletionTimestamp() != nil }), err
}

// Remove deletes the matching objects of the Inventory in reverse order, and returns the changes. It returns no changes if no object is left. Remove
// reads from the cluster. An object needs only our field manager or our label, because another client may have removed one of these. The function
// removable has an exception.
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

// RemoveMade deletes objects that the owner's pods created. These objects have neither our label nor our field manager. So RemoveMade finds them by
// name, and reads them from the cluster.
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

// removable reports whether Remove is allowed to delete an object of the Inventory. For CreateOnly kinds, the label is not enough. Such an object can
// have another owner, because any user can set labels.
func (a *Applier) removable(found *unstructured.Unstructured) bool {
	return a.applied(found) || (a.labelled(found) && !a.CreateOnly[found.GroupVersionKind().GroupKind()])
}

// delete removes one object. Foreground deletion keeps workloads visible until their pods are gone.
func (a *Applier) delete(ctx context.Context, object *unstructured.Unstructured) Change {
	policy := metav1.DeletePropagationBackground
	if kind := object.GetKind(); kind == "Deployment" || kind == "DaemonSet" {
		policy = metav1.DeletePropagationForeground
	}
	change := Delete(ctx, a.Client, object, client.PropagationPolicy(policy))
	a.Mutations.Evict(change.Subject)
	return change
}
