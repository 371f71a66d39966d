package apply

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Settled remembers the objects that a Set found unchanged. As long as an object is rendered as it was then, and the cache has it in the
// version that was compared then, the next Set does not convert and compare it: most reconciles come from an event that concerns one object,
// or none. It is for one goroutine at a time.
type Settled map[Subject]settled

type settled struct {
	rendered client.Object
	version  string
}

// isSettled reports whether an object is known to be as it is to be.
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

// settle remembers what has become of an object.
func (a *Applier) settle(change Change, object client.Object, version string) {
	delete(a.Settled, change.Subject)
	if a.Settled == nil || change.Action != Unchanged || version == "" {
		return
	}
	// The caller may change the object.
	if rendered, ok := object.DeepCopyObject().(client.Object); ok {
		a.Settled[change.Subject] = settled{rendered: rendered, version: version}
	}
}
