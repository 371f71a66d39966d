// Package apply makes a set of objects in the cluster equal to a rendered set, by server-side apply.
//
// It compares with the cache: an object that is already right costs no request (drift.go). What a user changes in an object of ours, additions
// included, is undone; labels and annotations of others stay. mutations.go remembers our own writes until the cache shows them, remove.go prunes and
// removes. See docs/decisions/0002.
//
// Fields of others are adopted after an apply, because the API server checks the adoption like a grant of the role's rules. Only for workloads the
// adoption comes first. It drops the rendered hash in the same request: else an operator that is killed before the second apply would keep those
// fields as its own. ownership.go removes the labels and owner references by which others would delete an object.
package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// HashAnnotation holds a hash of the rendered object, so that a field which is no longer rendered is noticed.
const HashAnnotation = "operator.openshift.io/rendered-hash"

// Applier writes the objects of one owner.
type Applier struct {
	// Client reads from the cache and writes to the cluster.
	Client client.Client
	// Live reads from the cluster what must not come from a cache, which lags and shows our objects only: what is about to be deleted, a workload
	// that is to be created, and an object of a CreateOnly kind.
	Live client.Reader
	// FieldManager writes the objects.
	FieldManager string
	// Labels are on all objects of the owner; objects without them are never pruned or removed.
	Labels client.MatchingLabels
	// Inventory are all objects that the owner can have, in the order in which they are applied. Others are never pruned or
	// removed, whatever they carry: anybody can put our label on an object.
	Inventory []Subject
	// CreateOnly are kinds of which an existing object that is not ours is left alone.
	CreateOnly map[schema.GroupKind]bool
	// Ours, if set, reports whether to adopt an object of such a kind although somebody else has made it.
	Ours func(live *unstructured.Unstructured) bool
	// RecreateOnImmutable are kinds of which an object is deleted and made anew to change an immutable field, beside the kinds that always are.
	// An immutable field of all others is kept as it is where the kind is CreateOnly.
	RecreateOnImmutable map[schema.GroupKind]bool
	// KeepAlive are kinds of which no object is deleted to be made anew, for the moment.
	KeepAlive map[schema.GroupKind]bool
	// PredecessorLabels are on the objects of predecessors, and PredecessorOwners are CustomResourceDefinitions that own these. Both are
	// removed, so that nobody's clean-up deletes the object.
	PredecessorLabels, PredecessorOwners []string
	// Mutations remembers this owner's latest writes until the cache shows them.
	Mutations *MutationCache
	// Settled, if set, remembers what needs no look.
	Settled Settled
}

// Set applies the objects in order. It goes on after an error, so that one bad object does not hold up the others.
func (a *Applier) Set(ctx context.Context, objects []client.Object) ChangeSet {
	changes := make(ChangeSet, 0, len(objects))
	for _, object := range objects {
		changes = append(changes, a.apply(ctx, object))
	}
	return changes
}

func (a *Applier) apply(ctx context.Context, object client.Object) Change {
	if subject, isSettled := a.isSettled(ctx, object); isSettled {
		return Change{Subject: subject, Action: Unchanged}
	}
	change, desired, live := a.look(ctx, object)
	version := ""
	if change.Action == "" {
		drift := false
		if live != nil {
			drift, version = live.GetAnnotations()[HashAnnotation] == desired.GetAnnotations()[HashAnnotation], live.GetResourceVersion()
		}
		change.Action, change.Err = a.write(ctx, desired, live)
		change.Drift = drift && change.Action == Configured
	}
	a.settle(change, object, version)
	return change
}

// look finds what is there of an object, nil if nothing. The action says why nothing is to be written; else it is empty.
func (a *Applier) look(ctx context.Context, object client.Object) (change Change, desired, live *unstructured.Unstructured) {
	desired, err := a.desired(object)
	if err != nil {
		return Change{Subject: Subject{ObjectKey: client.ObjectKeyFromObject(object)}, Action: Failed, Err: err}, nil, nil
	}
	change.Subject = SubjectOf(desired)
	live, err = a.read(ctx, change.Subject)
	if err == nil && live == nil && (a.CreateOnly[change.Subject.GroupKind()] || runsPods(change.Subject)) {
		// The cache lags, or it does not show what is not ours. The administrator may have just made a StorageClass, and pods
		// may run that somebody else has started.
		live, err = a.readFrom(ctx, a.Live, change.Subject)
	}
	switch {
	case err != nil:
		change.Action, change.Err = Failed, err
	case live != nil && a.CreateOnly[change.Subject.GroupKind()] && !a.Owns(live) && (a.Ours == nil || !a.Ours(live)):
		change.Action = LeftAlone
	case live != nil && live.GetDeletionTimestamp() != nil:
		// Its end wakes the controller up.
		change.Action, change.Finalizers = Terminating, live.GetFinalizers()
		change.Err = fmt.Errorf("is being deleted and waits for its finalizers %v: it is made again when it has gone", change.Finalizers)
	}
	return change, desired, live
}

// Preview returns what Set would do, and changes nothing. Adopted objects are Configured ones that are not ours yet.
func (a *Applier) Preview(ctx context.Context, objects []client.Object) ChangeSet {
	changes := make(ChangeSet, 0, len(objects))
	for _, object := range objects {
		change, desired, live := a.look(ctx, object)
		switch {
		case change.Action == LeftAlone:
			change.LegacyOwned = a.ownershipOf(live, a.PredecessorLabels) != nil
		case change.Action != "":
		case live == nil:
			change.Action = Created
		default:
			_, same, err := a.compare(desired, live)
			change.Action, change.Err, change.Adopted = Configured, err, !a.Owns(live)
			if same {
				change.Action = Unchanged
			}
		}
		changes = append(changes, change)
	}
	return changes
}

// compare reports whether a live object is as it is to be, and what others have changed or added.
func (a *Applier) compare(desired, live *unstructured.Unstructured) (theirs othersFields, same bool, err error) {
	if !a.RecreateOnImmutable[desired.GroupVersionKind().GroupKind()] {
		keepImmutable(desired, live)
	}
	if theirs, err = a.fieldsOfOthers(live, desired); err != nil {
		return nil, false, err
	}
	// Without our field manager, which somebody may have wiped, removal would not find the object.
	return theirs, theirs.empty() && a.Owns(live) && contains(live.Object, desired.Object), nil
}

// write brings one object to the desired state, if it is not there yet. What others manage on an object that the cache does not show stays until
// the cache shows it.
func (a *Applier) write(ctx context.Context, desired, live *unstructured.Unstructured) (Action, error) {
	if live == nil {
		_, err := a.patch(ctx, desired)
		return done(Created, err)
	}
	theirs, same, err := a.compare(desired, live)
	switch {
	case err != nil:
		return Failed, err
	case same:
		return Unchanged, nil
	case aggregated(live):
		if err := a.deleteLive(ctx, desired); err != nil {
			return Failed, fmt.Errorf("delete it to end the aggregation: %w", err)
		}
	case runsPods(SubjectOf(desired)) && !theirs.empty():
		return done(Configured, a.adoptAndApply(ctx, desired, live, theirs))
	}
	return done(Configured, a.applyAndAdopt(ctx, desired))
}

// done is the action of a write, unless that has failed.
func done(action Action, err error) (Action, error) {
	if err != nil {
		return Failed, err
	}
	return action, nil
}

// adoptAndApply adopts what others manage, and then applies. In between nothing changes, so that no pod is ever started from a mixture of
// their fields and ours.
func (a *Applier) adoptAndApply(ctx context.Context, desired, live *unstructured.Unstructured, theirs othersFields) error {
	if err := a.adopt(ctx, live, theirs); err != nil {
		return err
	}
	_, err := a.patch(ctx, desired)
	return err
}

// applyAndAdopt applies, adopts what others still manage, and removes that by another apply. In this order the API server never has to check an
// adoption of RBAC that the operator does not hold: the first apply has already replaced the rules. Kubernetes writes the status of an admission
// policy right after each change, so that a first conflict is no failure.
func (a *Applier) applyAndAdopt(ctx context.Context, desired *unstructured.Unstructured) error {
	for attempt := 1; ; attempt++ {
		applied, err := a.patch(ctx, desired)
		if err != nil {
			return err
		}
		left, err := a.fieldsOfOthers(applied, desired)
		if err != nil || left.empty() {
			return err
		}
		err = a.adopt(ctx, applied, left)
		if err == nil {
			_, err = a.patch(ctx, desired)
			return err
		}
		if !apierrors.IsConflict(err) || attempt == 2 {
			return err
		}
	}
}

// patch sends a server-side apply. Where the API server refuses to change an immutable field of the live object, kinds
// that hold no state are deleted and made again.
func (a *Applier) patch(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	applied, err := a.send(ctx, desired)
	if kind := desired.GroupVersionKind().GroupKind(); isUnfit(err) && (recreatable(kind) || a.RecreateOnImmutable[kind]) && !a.KeepAlive[kind] {
		if err := a.deleteLive(ctx, desired); err != nil {
			return nil, fmt.Errorf("delete it to replace an immutable field: %w", err)
		}
		return a.send(ctx, desired)
	}
	return applied, err
}

// deleteLive deletes the object that is in the cluster, which the cache does not show if our label is not on it.
func (a *Applier) deleteLive(ctx context.Context, desired *unstructured.Unstructured) error {
	live, err := a.readFrom(ctx, a.Live, SubjectOf(desired))
	if err != nil || live == nil {
		return err
	}
	return DeleteRead(ctx, a.Client, live)
}

func (a *Applier) send(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	applied := desired.DeepCopy()
	err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied),
		client.FieldOwner(a.FieldManager), client.ForceOwnership)
	if err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	dropNulls(applied.Object)
	if err := hashData(applied); err != nil {
		return nil, err
	}
	a.Mutations.Remember(applied)
	return applied, nil
}

// desired turns a rendered object into what is sent to the API server.
func (a *Applier) desired(object client.Object) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(object, a.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("kind of %T %s: %w", object, object.GetName(), err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", kind.Kind, object.GetName(), err)
	}
	delete(fields, "status")
	desired := &unstructured.Unstructured{Object: dropNulls(fields)}
	desired.SetGroupVersionKind(kind)
	encoded, err := json.Marshal(desired.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", kind.Kind, object.GetName(), err)
	}
	annotations := desired.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[HashAnnotation] = Digest(string(encoded))
	desired.SetAnnotations(annotations)
	return desired, nil
}

// Digest is a hash of a text that is short enough for an annotation.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// SubjectOf names an object that knows its kind.
func SubjectOf(object client.Object) Subject {
	return Subject{
		GroupVersionKind: object.GetObjectKind().GroupVersionKind(),
		ObjectKey:        client.ObjectKeyFromObject(object),
	}
}
