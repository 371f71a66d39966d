package clustercsidriver

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// podsInterval is how long the operator collects pod events before a reconcile. The delay does no harm, because pod events change only messages.
const podsInterval = 5 * time.Second

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	if err := r.prepare(); err != nil {
		return err
	}
	build := ctrl.NewControllerManagedBy(manager).Named("clustercsidriver").WithOptions(controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, time.Minute),
	})
	for _, watched := range watch.Served(r.Driver, r.Namespace, r.Kinds) {
		if watched.Pending {
			build = build.Watches(watched.Object, apply.WhenServed(snapshotv1.GroupVersion().Version, r.Process.Restart))
			continue
		}
		if watched.Matters == nil {
			build = build.Watches(watched.Object, r.applier.Wake(r.request()))
			continue
		}
		build = build.Watches(watched.Object, handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if watched.Matters(e.ObjectOld, e.ObjectNew) {
				// Batch the events.
				q.AddAfter(r.request(), podsInterval)
			}
		}})
	}
	for _, secret := range r.Credentials.Secrets {
		build = build.WatchesRawSource(source.Kind(secret, client.Object(&corev1.Secret{}), r.applier.Wake(r.request())))
	}
	for _, predecessor := range r.Migration.Predecessors {
		for _, events := range predecessor.AllEvents(handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{r.request()}
		})) {
			build = build.WatchesRawSource(events)
		}
	}
	if r.Nodes.Registered != nil {
		build = build.WatchesRawSource(r.Nodes.Registered)
	}
	if r.Taints != nil && r.Taints.Tainted != nil {
		build = build.WatchesRawSource(r.Taints.Tainted)
	}
	if cloud := r.Derived.Cloud; cloud != nil {
		build = build.WatchesRawSource(source.Channel(cloud.Changed(), handler.Funcs{
			GenericFunc: func(_ context.Context, _ event.GenericEvent, q queue) { q.Add(r.request()) },
		}))
	}
	// In a cluster without a ClusterCSIDriver, no event arrives. So this source triggers one reconcile, which reports that the ClusterCSIDriver is
	// absent.
	build = build.WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
		q.Add(r.request())
		return nil
	}))
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("set up controller clustercsidriver: %w", err)
	}
	return nil
}

func (r *Reconciler) prepare() error {
	if err := r.prepareApplier(); err != nil {
		return err
	}
	gauges, err := newMetrics(registry.Registry, r.Driver.Name)
	r.reporter = r.newReporter(gauges)
	return err
}

func (r *Reconciler) newReporter(gauges *metrics) *reporter {
	return &reporter{
		version: r.Version, events: r.Events, metrics: gauges, now: r.Now,
		writer: &status.Writer{Client: r.Client, Owner: r.Driver.Operator, Now: r.Now, Remember: r.applier.Mutations.Remember},
		conditioner: conditioner{
			driver: r.Driver, namespace: r.Namespace, kinds: r.Kinds,
			failures: &status.Failures{Now: r.Now}, rollouts: &status.Rollouts{Now: r.Now}, waits: &status.Waits{Now: r.Now},
		},
	}
}

func (r *Reconciler) prepareApplier() error {
	r.applier = &apply.Applier{
		Client: r.Client, Live: r.Live, FieldManager: r.Driver.Operator,
		Labels:     client.MatchingLabels(watch.Labels(r.Driver)),
		CreateOnly: map[schema.GroupKind]bool{{Group: storagev1.GroupName, Kind: "StorageClass"}: true},
		Mutations:  apply.NewMutationCache(), Settled: apply.Settled{},
	}
	if r.Driver.StorageClass == "" {
		// This operator owns all StorageClasses of the driver, also StorageClasses that a predecessor created. The ClusterCSIDriver determines their
		// parameters. So the operator recreates a StorageClass to change its parameters, which are immutable.
		r.applier.RecreateOnImmutable = map[schema.GroupKind]bool{{Group: storagev1.GroupName, Kind: "StorageClass"}: true}
		r.applier.Ours = func(live *unstructured.Unstructured) bool { return live.Object["provisioner"] == r.Driver.Name }
	}
	for _, predecessor := range r.Driver.Predecessors {
		if predecessor.Label != "" {
			r.applier.PredecessorLabels = append(r.applier.PredecessorLabels, predecessor.Label)
			r.applier.PredecessorOwners = append(r.applier.PredecessorOwners, predecessor.Owner)
		}
	}
	r.Migration.Use(r.applier)
	r.Derived.Use(r.applier)
	everything, err := r.Driver.Everything(r.Client.Scheme(), r.Namespace, r.Settings)
	if err != nil {
		return err
	}
	// The operator can own objects only in the namespaces that it watches.
	namespaces := map[string]bool{"": true}
	for _, watched := range watch.Served(r.Driver, r.Namespace, r.Kinds) {
		namespaces[watched.Namespace] = true
		for _, other := range watched.Others {
			namespaces[other.Namespace] = true
		}
	}
	for _, object := range everything {
		if subject := apply.SubjectOf(object); r.serves(subject.GroupKind()) && namespaces[subject.Namespace] {
			r.applier.Inventory = append(r.applier.Inventory, subject)
		}
	}
	if r.Driver.MountsInPods {
		r.applier.Inventory = append(r.applier.Inventory, nodes.ImagePods(r.Namespace, r.Driver.DaemonSet))
	}
	return nil
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func (r *Reconciler) request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: r.Driver.Name}}
}

// serves reports whether the cluster serves a kind. It returns true for every kind that is not optional.
func (r *Reconciler) serves(kind schema.GroupKind) bool {
	_, optional := watch.OptionalKinds(r.Driver)[kind]
	return !optional || r.Kinds[kind]
}
