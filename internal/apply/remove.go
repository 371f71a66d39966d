package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Prune deletes the owner's objects that are not in keep, as the cache has them. It looks at Kinds only, and deletes
// only what carries our label and our field manager.
func (a *Applier) Prune(ctx context.Context, keep []client.Object) ChangeSet {
	kept := map[Subject]bool{}
	for _, object := range keep {
		kept[subjectOf(object)] = true
	}
	var changes ChangeSet
	for _, kind := range a.Kinds {
		found, err := a.list(ctx, a.Client, kind)
		if err != nil {
			changes = append(changes, Change{Subject: kind.subject(), Action: Failed, Err: err})
			continue
		}
		for _, object := range found {
			if !kept[subjectOf(object)] && object.GetDeletionTimestamp() == nil {
				changes = append(changes, a.delete(ctx, object))
			}
		}
	}
	return changes
}

// Owned returns the owner's objects of all Kinds, as the cache has them.
func (a *Applier) Owned(ctx context.Context) ([]client.Object, error) {
	var owned []client.Object
	for _, kind := range a.Kinds {
		found, err := a.list(ctx, a.Client, kind)
		if err != nil {
			return nil, err
		}
		owned = append(owned, found...)
	}
	return owned, nil
}

// Remove deletes all objects of the given kinds that are the owner's, in reverse order, and returns what is still
// there. It reads from the cluster. An empty answer means that nothing of these kinds is left.
func (a *Applier) Remove(ctx context.Context, kinds []Kind) ChangeSet {
	var changes ChangeSet
	for i := len(kinds) - 1; i >= 0; i-- {
		found, err := a.list(ctx, a.Live, kinds[i])
		if err != nil {
			changes = append(changes, Change{Subject: kinds[i].subject(), Action: Failed, Err: err})
			continue
		}
		for _, object := range found {
			if object.GetDeletionTimestamp() != nil {
				changes = append(changes, Change{Subject: subjectOf(object), Action: Terminating, Finalizers: object.GetFinalizers()})
				continue
			}
			changes = append(changes, a.delete(ctx, object))
		}
	}
	return changes
}

// delete removes one object. Workloads go in the foreground, so that they stay visible until their pods have gone.
func (a *Applier) delete(ctx context.Context, object client.Object) Change {
	change := Change{Subject: subjectOf(object), Action: Deleted}
	policy := metav1.DeletePropagationBackground
	if kind := change.Subject.Kind; kind == "Deployment" || kind == "DaemonSet" {
		policy = metav1.DeletePropagationForeground
	}
	uid := object.GetUID()
	err := a.Client.Delete(ctx, object, client.PropagationPolicy(policy), client.Preconditions{UID: &uid})
	a.Written.Forget(change.Subject)
	if err != nil && !apierrors.IsNotFound(err) {
		change.Action, change.Err = Failed, fmt.Errorf("delete: %w", err)
	}
	return change
}

// list returns the owner's objects of one kind. A kind that the cluster does not serve has none.
func (a *Applier) list(ctx context.Context, reader client.Reader, kind Kind) ([]client.Object, error) {
	if kind.Name != "" {
		found, err := a.readFrom(ctx, reader, kind.subject())
		if err != nil || found == nil || !a.owns(found) {
			return nil, err
		}
		return []client.Object{found}, nil
	}
	listKind := kind.GroupVersion().WithKind(kind.Kind + "List")
	empty, err := a.Client.Scheme().New(listKind)
	if err != nil {
		return nil, fmt.Errorf("kind %s is not in the scheme: %w", listKind, err)
	}
	objects, ok := empty.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("kind %s is not a list", listKind)
	}
	if err := reader.List(ctx, objects, a.Labels, client.InNamespace(kind.Namespace)); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	items, err := meta.ExtractList(objects)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	var found []client.Object
	for _, item := range items {
		object, ok := item.(client.Object)
		if ok && a.owns(object) {
			// Items of a typed list come without their kind.
			object.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
			found = append(found, object)
		}
	}
	return found, nil
}
