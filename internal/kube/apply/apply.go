// Package apply makes a set of objects in the cluster equal to a rendered set, by server-side apply.
//
// The applier compares each object with the cache, so that an unchanged object costs no request (drift.go). It reverts changes that other clients
// made to our objects, and removes what they added. It keeps labels and annotations of other clients. mutations.go remembers our own writes until the
// cache shows them, remove.go prunes and removes. See docs/decisions/0002.
//
// To remove fields of other clients, the applier adopts the fields by an update, which makes the applier their owner. It then applies the object
// without these fields. For a workload, the adoption is the first request, so that the pod template changes only once. The adoption also removes the
// rendered hash. So if the operator is killed after the adoption, it still applies at its next start. For all other kinds, an apply precedes the
// adoption. This apply replaces RBAC rules of other clients, because the API server would treat the adoption of a rule as a grant. ownership.go
// removes labels and owner references that let others delete an object.
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

// HashAnnotation is the annotation with a hash of the rendered object. By the hash, the applier detects fields that the operator no longer renders.
const HashAnnotation = "operator.openshift.io/rendered-hash"

// Applier writes the objects of one owner.
type Applier struct {
	// Client reads from the cache and writes to the cluster.
	Client client.Client
	// Live reads from the cluster. The cache lags, and shows only our objects. So the applier reads Live before it removes or recreates an object, and
	// for objects of CreateOnly kinds. It also reads Live before it creates a workload, unless HasPods reports that the workload has no pods. Prune
	// reads only the cache.
	Live client.Reader
	// HasPods, if set, reports whether pods of a workload exist. Pods of other owners count, too.
	HasPods func(Subject) bool
	// FieldManager writes the objects.
	FieldManager string
	// Labels are on all objects of the owner. The applier prunes only objects with these labels and our field manager.
	Labels client.MatchingLabels
	// Inventory lists all objects that the owner can have, in apply order. The applier prunes and removes only objects in the Inventory, because any
	// user can put our label on an object.
	Inventory []Subject
	// CreateOnly are kinds. The applier creates missing objects of these kinds. It changes an existing object of these kinds only if Owns or Ours
	// returns true for the object.
	CreateOnly map[schema.GroupKind]bool
	// Ours, if set, reports whether the applier is allowed to adopt an existing object of a CreateOnly kind from another owner.
	Ours func(live *unstructured.Unstructured) bool
	// RecreateOnImmutable are kinds whose objects the applier deletes and recreates to change an immutable field, in addition to the kinds for which the
	// function recreatable returns true.
	RecreateOnImmutable map[schema.GroupKind]bool
	// KeepAlive are kinds whose objects the applier must not recreate now, because even a short absence would do harm.
	KeepAlive map[schema.GroupKind]bool
	// PredecessorLabels are labels of the objects of predecessors. PredecessorOwners are CustomResourceDefinitions that own such objects. The applier
	// removes these labels and owner references. So neither a clean-up by label nor the garbage collector deletes the objects.
	PredecessorLabels, PredecessorOwners []string
	// Mutations remembers this owner's latest writes until the cache shows them.
	Mutations *MutationCache
	// Settled, if set, remembers objects that need no comparison.
	Settled Settled
}

// Set applies the objects in order. It continues after an error, so that one bad object does not block the other objects.
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
	change, desired, live := a.current(ctx, object)
	version := ""
	if change.Action == "" {
		drift := false
		if live != nil {
			drift, version = live.GetAnnotations()[HashAnnotation] == desired.GetAnnotations()[HashAnnotation], live.GetResourceVersion()
		}
		change.Action, change.Err = a.write(ctx, desired, live)
		change.Drift = drift && change.Action == Configured
	}
	change.Dropped = a.Mutations.droppedFields(change.Subject)
	a.settle(change, object, version)
	return change
}

// current returns the desired object (desired) and the existing object (live). Result "live" is nil if the object does not exist. If the action of
// the change is set, the caller must not write.
func (a *Applier) current(ctx context.Context, object client.Object) (change Change, desired, live *unstructured.Unstructured) {
	desired, err := a.desired(object)
	if err != nil {
		return Change{Subject: Subject{ObjectKey: client.ObjectKeyFromObject(object)}, Action: Failed, Err: err}, nil, nil
	}
	change.Subject = SubjectOf(desired)
	live, err = a.read(ctx, change.Subject)
	if err == nil && live == nil && (a.CreateOnly[change.Subject.GroupKind()] || a.mayRun(change.Subject)) {
		// Read from the cluster, because the cache lags, and shows only our objects. An administrator may have just created this StorageClass. Or another
		// operator may have created this workload, and the workload's pods still run.
		live, err = a.readFrom(ctx, a.Live, change.Subject)
	}
	switch {
	case err != nil:
		change.Action, change.Err = Failed, err
	case live != nil && a.CreateOnly[change.Subject.GroupKind()] && !a.Owns(live) && (a.Ours == nil || !a.Ours(live)):
		change.Action = LeftAlone
	case live != nil && live.GetDeletionTimestamp() != nil:
		// The end of the object's deletion triggers a reconcile.
		change.Action, change.Finalizers = Terminating, live.GetFinalizers()
		change.Err = fmt.Errorf("is being deleted, waiting for finalizers %v; it will be recreated", change.Finalizers)
	}
	return change, desired, live
}

// mayRun reports whether an object is a workload that may have pods, although the cache does not show the workload.
func (a *Applier) mayRun(subject Subject) bool {
	return runsPods(subject) && (a.HasPods == nil || a.HasPods(subject))
}

// Preview returns what Set would do. It sets Adopted if Set would change an object that is not ours yet.
func (a *Applier) Preview(ctx context.Context, objects []client.Object) ChangeSet {
	changes := make(ChangeSet, 0, len(objects))
	for _, object := range objects {
		change, desired, live := a.current(ctx, object)
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

// compare compares a live object with the desired object. Result "theirs" has the fields that other clients changed or added. Result "same" is true
// if the objects match, and if the live object is ours and has no fields of other clients.
func (a *Applier) compare(desired, live *unstructured.Unstructured) (theirs othersFields, same bool, err error) {
	if !a.RecreateOnImmutable[desired.GroupVersionKind().GroupKind()] {
		keepImmutable(desired, live)
	}
	if theirs, err = a.fieldsOfOthers(live, desired); err != nil {
		return nil, false, err
	}
	// An object without our field manager counts as different, so the applier applies it again. A removal finds objects by our field manager, and would
	// miss an object whose managed fields another client has cleared.
	isThere := contains(live.Object, desired.Object) || a.Mutations.dropsTheSame(live, desired)
	return theirs, theirs.empty() && a.Owns(live) && isThere, nil
}

// write creates or updates one object. Argument "live" is nil if the cache does not show the object. In this case, write does not remove fields of
// other clients. A later reconcile removes these fields.
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
			return Failed, fmt.Errorf("delete it, to recreate it without aggregationRule: %w", err)
		}
	case runsPods(SubjectOf(desired)) && !theirs.empty():
		return done(Configured, a.adoptAndApply(ctx, desired, live, theirs))
	}
	return done(Configured, a.applyAndAdopt(ctx, desired))
}

func done(action Action, err error) (Action, error) {
	if err != nil {
		return Failed, err
	}
	return action, nil
}

// adoptAndApply adopts the fields of other clients, and then applies. The adoption changes no value, so the pod template changes only once. With an
// apply before the adoption, pods could start with some fields of other clients and some of our fields.
func (a *Applier) adoptAndApply(ctx context.Context, desired, live *unstructured.Unstructured, theirs othersFields) error {
	if err := a.adopt(ctx, live, theirs); err != nil {
		return err
	}
	_, err := a.patch(ctx, desired)
	return err
}

// applyAndAdopt applies the object, adopts the fields of other clients that remain, and removes these fields by a second apply. The first apply
// replaces RBAC rules of other clients. So the adoption never claims rules that the operator does not hold. Kubernetes updates the status of an
// admission policy after each change, so applyAndAdopt retries after the first conflict.
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

// patch sends a server-side apply. If the API server rejects the change of an immutable field, and the object's kind allows a recreation, patch
// deletes and recreates the object.
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

// deleteLive reads the object from the cluster, and deletes it. The cache would show only objects with our label.
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
	a.Mutations.rememberDropped(applied, desired)
	if err := hashData(applied); err != nil {
		return nil, err
	}
	a.Mutations.Remember(applied)
	return applied, nil
}

// desired converts a rendered object into the apply request.
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

// Digest returns a hash that is short enough for an annotation.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// SubjectOf returns the kind and the name of an object whose kind is set.
func SubjectOf(object client.Object) Subject {
	return Subject{
		GroupVersionKind: object.GetObjectKind().GroupVersionKind(),
		ObjectKey:        client.ObjectKeyFromObject(object),
	}
}
