package apply

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Settled remembers objects that Set found unchanged. Set skips an object until the rendered object or the cached resourceVersion changes. So Set
// compares few objects, because most events concern one object, or no object. Settled is not safe for concurrent use.
type Settled map[Subject]settled

type settled struct {
	rendered client.Object
	version  string
}

// isSettled reports whether a rendered object and the cached resourceVersion are unchanged since the last comparison.
func (a *Applier) isSettled(ctx context.Context, object client.Object) (Subject, bool) {
	kind, err := apiutil.GVKForObject(object, a.Client.Scheme())
	if err != nil {
		return Subject{}, false
	}
	subject := Subject{GroupVersionKind: kind, ObjectKey: client.ObjectKeyFromObject(object)}
	known, found := a.Settled[subject]
	if !found || a.Mutations.remembers(subject) || !equality.Semantic.DeepEqual(known.rendered, object) {
		return subject, false
	}
	cached, err := a.get(ctx, a.Client, subject)
	return subject, err == nil && cached != nil && cached.GetResourceVersion() == known.version
}

// settle remembers an unchanged object, and forgets a changed object. It does not remember an object whose fields the API server drops in part,
// because a change of a feature gate changes the fields that the API server shows, but not the resourceVersion.
func (a *Applier) settle(change Change, object client.Object, version string) {
	delete(a.Settled, change.Subject)
	if a.Settled == nil || change.Action != Unchanged || version == "" || len(change.Dropped) > 0 {
		return
	}
	// Store a copy, because the caller can change the object later.
	if rendered, ok := object.DeepCopyObject().(client.Object); ok {
		a.Settled[change.Subject] = settled{rendered: rendered, version: version}
	}
}
