package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Action is what was done with one object.
type Action string

// The actions that a ChangeSet reports.
const (
	Created    Action = "created"
	Configured Action = "configured"
	Unchanged  Action = "unchanged"
	// LeftAlone objects belong to somebody else and were left alone.
	LeftAlone Action = "foreign"
	Deleted   Action = "deleted"
	// Terminating objects were deleted before and wait for their dependents or finalizers.
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

// Change is what happened to one object.
type Change struct {
	Subject Subject
	Action  Action
	// Drift means that what was configured had been changed by somebody else; the rendered object is the same.
	Drift bool
	// Adopted means that the configured object was somebody else's. LegacyOwned means that an object which is left alone has the label or
	// owner of a predecessor, which is removed. Only Preview fills them in.
	Adopted, LegacyOwned bool
	// Finalizers are what a Terminating object waits for.
	Finalizers []string
	// Err says why the action failed.
	Err error
}

// ChangeSet is what applying or removing did, object by object.
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

// Where keeps the changes that match.
func (s ChangeSet) Where(match func(Change) bool) ChangeSet {
	var kept ChangeSet
	for _, change := range s {
		if match(change) {
			kept = append(kept, change)
		}
	}
	return kept
}

// With keeps the changes with one of these actions.
func (s ChangeSet) With(actions ...Action) ChangeSet {
	return s.Where(func(change Change) bool { return slices.Contains(actions, change.Action) })
}

// Done keeps the changes that were made.
func (s ChangeSet) Done() ChangeSet { return s.With(Created, Configured, Deleted) }

// Log logs what was done, not what was found in order.
func (s ChangeSet) Log(ctx context.Context) {
	for _, change := range s.Done() {
		ctrl.LoggerFrom(ctx).Info(string(change.Action), "object", change.Subject.String())
	}
}

// Names are the objects of the changes, sorted, each with the finalizers that hold it. How these are introduced is up to the caller.
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
