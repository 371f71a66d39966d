package apply

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Wake maps every event of an object to the same request. Wake also records deletions, because a cache can't tell a deleted object from an object
// that it does not show yet.
func (a *Applier) Wake(request reconcile.Request) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.Add(request) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { q.Add(request) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			if kind, err := apiutil.GVKForObject(e.Object, a.Client.Scheme()); err == nil {
				a.Mutations.EvictDeleted(Subject{GroupVersionKind: kind, ObjectKey: client.ObjectKeyFromObject(e.Object)}, e.Object)
			}
			q.Add(request)
		},
	}
}
