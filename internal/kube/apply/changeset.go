package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Action says what happened to an object.
type Action string

// The actions that a ChangeSet reports.
const (
	Created    Action = "created"
	Configured Action = "configured"
	Unchanged  Action = "unchanged"
	// LeftAlone means that the object has another owner, so the applier did not change it.
	LeftAlone Action = "left alone"
	Deleted   Action = "deleted"
	// Terminating means that the object is being deleted, and waits for its dependents or finalizers.
	Terminating Action = "terminating"
	Failed      Action = "failed"
)

// Subject names an object.
type Subject struct {
	schema.GroupVersionKind
	client.ObjectKey
}

// String gives "Kind namespace/name", or "Kind name" for a cluster-scoped object.
func (s Subject) String() string {
	if s.Namespace == "" {
		return s.Kind + " " + s.Name
	}
	return s.Kind + " " + s.Namespace + "/" + s.Name
}

// Change names an object, and says what happened to it.
type Change struct {
	Subject Subject
	Action  Action
	// Drift means that another client had changed the object, and that Set reverted the change. The rendered object is the same as before.
	Drift bool
	// Adopted means that the object does not belong to the applier's owner yet. LegacyOwned means that the object keeps its owner, but loses the label
	// or owner reference of a predecessor. Only Preview sets these fields.
	Adopted, LegacyOwned bool
	// Dropped are the paths of fields that the API server accepted, but did not store.
	Dropped []string
	// Finalizers are the finalizers for which a Terminating object waits.
	Finalizers []string
	// Err says why the action failed.
	Err error
}

// ChangeSet lists what the applier did, or would do, to each object.
type ChangeSet []Change

// Err joins the errors of all failed objects, each with the object's name.
func (s ChangeSet) Err() error {
	var failures []error
	for _, change := range s {
		if change.Err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", change.Subject, change.Err))
		}
	}
	return errors.Join(failures...)
}

// Where returns the changes that match.
func (s ChangeSet) Where(match func(Change) bool) ChangeSet {
	var kept ChangeSet
	for _, change := range s {
		if match(change) {
			kept = append(kept, change)
		}
	}
	return kept
}

// With returns the changes with one of these actions.
func (s ChangeSet) With(actions ...Action) ChangeSet {
	return s.Where(func(change Change) bool { return slices.Contains(actions, change.Action) })
}

// Done returns the changes that the applier made.
func (s ChangeSet) Done() ChangeSet { return s.With(Created, Configured, Deleted) }

// Log logs the changes that the applier made.
func (s ChangeSet) Log(ctx context.Context) {
	for _, change := range s.Done() {
		log.FromContext(ctx).Info(string(change.Action), "object", change.Subject.String())
	}
}

// Names lists the objects, sorted. For an object with finalizers, the name is followed by argument "held" and the finalizers in parentheses, for
// instance "Kind name (held by finalizer, ...)".
func (s ChangeSet) Names(held string) []string {
	names := make([]string, 0, len(s))
	for _, change := range s {
		name := change.Subject.String()
		if len(change.Finalizers) > 0 {
			name += " (" + held + " " + strings.Join(change.Finalizers, ", ") + ")"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
