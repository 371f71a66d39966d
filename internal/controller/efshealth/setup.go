package efshealth

import (
	"context"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/internal/kube/informer"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// SetupWithManager adds the controller, the poller and the caches to the manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	if err := r.prepare(registry.Registry); err != nil {
		return err
	}
	if err := manager.Add(r.poller); err != nil {
		return fmt.Errorf("set up the AWS poller: %w", err)
	}
	if r.Reports != nil {
		r.Reports.Changed = r.requestReconcile
		if err := manager.Add(r.Reports); err != nil {
			return fmt.Errorf("set up the questions to Prometheus: %w", err)
		}
	}
	if err := r.addCache(manager); err != nil {
		return err
	}
	wake := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{r.request()} })
	build := ctrl.NewControllerManagedBy(manager).Named("filesystem").
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 10*time.Minute),
		}).
		// Changes of the management state and of our conditions trigger a reconcile.
		Watches(&operatorv1.ClusterCSIDriver{}, wake, builder.WithPredicates(named(r.Driver.Name))).
		// The cluster's CA certificates.
		Watches(&corev1.ConfigMap{}, wake, builder.WithPredicates(named(r.Driver.TrustedCABundle()))).
		// Changes of volumes and StorageClasses, and of the zones of nodes, trigger a reconcile.
		WatchesRawSource(r.volumes).
		WatchesRawSource(r.nodes).
		WatchesRawSource(source.Channel(r.polled, wake)).
		WatchesRawSource(source.Kind(r.Classes, client.Object(&storagev1.StorageClass{}), r.gather())).
		// This source triggers one reconcile even in a cluster without any object. Shares must learn that the operator has nothing to check.
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			q.Add(r.request())
			return nil
		}))
	if r.HasInfrastructure {
		// The region and the tags.
		build = build.Watches(&configv1.Infrastructure{}, wake)
	}
	for _, predecessor := range r.Predecessors {
		build = build.WatchesRawSource(predecessor.Events(wake))
	}
	for _, secret := range r.Secrets {
		build = build.WatchesRawSource(source.Kind(secret, client.Object(&corev1.Secret{}), wake))
	}
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("set up controller filesystem: %w", err)
	}
	return nil
}

// prepare creates the state that the reconciler, the poller and Shares use together.
func (r *Reconciler) prepare(registry prometheus.Registerer) (err error) {
	r.polled = make(chan event.GenericEvent, 1)
	r.poller = &poller{now: r.Now, done: r.wake, answers: poll.Budget{MaxRound: maxRound}}
	r.Shares = &Shares{now: r.Now, nodeZones: r.zones, changes: make(chan event.GenericEvent, mostChanges), first: make(chan struct{})}
	r.writer = &status.Writer{Client: r.Client, Owner: r.owner(), Now: r.Now}
	if r.metrics, err = newMetrics(registry, r.Driver.Name); err == nil {
		r.reset()
	}
	return err
}

// addCache adds a cache of StorageClasses, which omits unused fields. It also adds the watches of volumes and nodes.
func (r *Reconciler) addCache(manager ctrl.Manager) error {
	var err error
	classes := map[client.Object]cache.ByObject{&storagev1.StorageClass{}: {Transform: stripClass}}
	r.Classes, err = informer.NewCache(manager, "all StorageClasses", classes)
	if err != nil {
		return err
	}
	api, err := informer.NewClient(manager)
	if err != nil {
		return err
	}
	r.followAll(api)
	return nil
}

func (r *Reconciler) followAll(api client.WithWatch) {
	volumes := func() client.ObjectList { return &corev1.PersistentVolumeList{} }
	r.volumes = informer.New(api, &corev1.PersistentVolume{}, volumes, r.request(), func(object client.Object) (volume, bool) {
		from, ok := object.(*corev1.PersistentVolume)
		if !ok {
			return volume{}, false
		}
		return volumeOf(from, r.Driver.Name)
	})
	nodes := func() client.ObjectList { return &corev1.NodeList{} }
	r.nodes = informer.New(api, &corev1.Node{}, nodes, r.request(), placeOf)
}

// WaitForCacheSync returns false if a cache does not sync before ctx ends.
func (r *Reconciler) WaitForCacheSync(ctx context.Context) bool {
	return r.Classes.WaitForCacheSync(ctx) && r.volumes.WaitForCacheSync(ctx) && r.nodes.WaitForCacheSync(ctx)
}

// gather delays the requeue after a change, so that one reconcile handles many changes.
func (r *Reconciler) gather() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(r.request(), informer.Settle) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { q.AddAfter(r.request(), informer.Settle) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { q.AddAfter(r.request(), informer.Settle) },
	}
}

func (r *Reconciler) request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: r.Driver.Name}}
}

func named(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == name })
}
