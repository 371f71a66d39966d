package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/internal/controller/storage/olm"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// clusterOperatorName is the name of the ClusterOperator in which this program reports.
const clusterOperatorName = "storage"

// Scope is the part of the catalogue that this cluster may need. This program watches objects of no other entries.
type Scope struct {
	Entries []catalogue.Entry
	// Kinds says for each optional kind of the entries' objects whether the cluster serves the kind.
	Kinds map[schema.GroupKind]bool
	// AttributesClasses is true if the cluster serves VolumeAttributesClasses.
	AttributesClasses bool
	// objects maps the name of an entry to all objects that the entry can have.
	objects map[string][]client.Object
}

// FindScope returns the entries that the cluster's platform needs. It also returns the entries whose operators this program started while the
// Infrastructure named another platform.
func FindScope(
	ctx context.Context, live client.Reader, scheme *runtime.Scheme, entries []catalogue.Entry,
	serves func(kind schema.GroupKind, version string) (bool, error),
) (Scope, error) {
	cluster, err := openshift.ReadInfrastructure(ctx, live)
	if err != nil {
		return Scope{}, err
	}
	var platform configv1.PlatformType
	if cluster != nil {
		platform = openshift.PlatformOf(cluster.Status)
	}
	started, err := startedBefore(ctx, live)
	if err != nil {
		return Scope{}, err
	}
	scope := Scope{Kinds: map[schema.GroupKind]bool{}, objects: map[string][]client.Object{}}
	attributes := storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass")
	if scope.AttributesClasses, err = serves(attributes.GroupKind(), attributes.Version); err != nil {
		return Scope{}, err
	}
	for _, entry := range entries {
		if entry.Platform != platform && !started(entry) {
			continue
		}
		objects, err := entry.Everything(scheme)
		if err != nil {
			return Scope{}, err
		}
		scope.Entries, scope.objects[entry.Name] = append(scope.Entries, entry), objects
		for _, object := range objects {
			kind := object.GetObjectKind().GroupVersionKind()
			if _, known := scope.Kinds[kind.GroupKind()]; known || !optional(kind.GroupKind()) {
				continue
			}
			if scope.Kinds[kind.GroupKind()], err = serves(kind.GroupKind(), kind.Version); err != nil {
				return Scope{}, err
			}
		}
	}
	return scope, nil
}

// startedBefore returns a function that reports whether some version of this program has started the operator of a catalogue entry.
func startedBefore(ctx context.Context, live client.Reader) (func(entry catalogue.Entry) bool, error) {
	drivers := &operatorv1.ClusterCSIDriverList{}
	if err := live.List(ctx, drivers); err != nil {
		return nil, fmt.Errorf("list ClusterCSIDrivers: %w", err)
	}
	// The ClusterCSIDriver may belong to an administrator, or may be deleted. In both cases, the Deployment of the operator shows that this program
	// started the operator.
	deployments := &appsv1.DeploymentList{}
	if err := live.List(ctx, deployments, client.InNamespace(catalogue.Namespace), client.MatchingLabels(ownLabels())); err != nil {
		return nil, fmt.Errorf("list Deployments of operators in namespace %s: %w", catalogue.Namespace, err)
	}
	names, operators := map[string]bool{}, map[string]bool{}
	for i := range drivers.Items {
		names[drivers.Items[i].Name] = isOurs(&drivers.Items[i])
	}
	for i := range deployments.Items {
		operators[deployments.Items[i].Name] = true
	}
	return func(entry catalogue.Entry) bool { return names[entry.Name] || operators[entry.Operator] }, nil
}

// optional reports whether a cluster may lack a kind. The optional kinds belong to monitoring, which may be installed later or not at all.
func optional(kind schema.GroupKind) bool { return kind == catalogue.ServiceMonitorKind() }

func (s Scope) has(entry catalogue.Entry) bool { return s.objects[entry.Name] != nil }

// serves reports whether the cluster serves a kind. Every cluster serves the kinds that are not optional.
func (s Scope) serves(kind schema.GroupKind) bool { return !optional(kind) || s.Kinds[kind] }

// namespaces maps each kind of object to the namespaces of its objects. The namespace of cluster-scoped kinds is empty.
func (s Scope) namespaces() map[schema.GroupVersionKind][]string {
	found := map[schema.GroupVersionKind][]string{}
	for _, objects := range s.objects {
		for _, object := range objects {
			kind := object.GetObjectKind().GroupVersionKind()
			if s.serves(kind.GroupKind()) && !slices.Contains(found[kind], object.GetNamespace()) {
				found[kind] = append(found[kind], object.GetNamespace())
			}
		}
	}
	return found
}

// watched is one kind of objects whose events trigger reconciles. It also says which objects of the kind the manager caches.
type watched struct {
	object client.Object
	// name, if set, selects one object of the kind. If name is empty and all is true, every object is selected. If name is empty and all is false, our
	// label selects the objects.
	name string
	all  bool
	// namespaces are the namespaces to watch. The list is empty for cluster-scoped kinds.
	namespaces []string
	// restarts marks a CRD. This program restarts once the cluster serves the kind of the CRD.
	restarts bool
}

// watches returns all objects that the controller watches in the manager's cache. SetupWithManager adds the only watch of another cache, the cache
// Conflicts.
func (s Scope) watches(scheme *runtime.Scheme) ([]watched, error) {
	list := []watched{
		// These objects have the administrator's configuration and this program's status.
		{object: &operatorv1.Storage{}, name: openshift.Singleton},
		{object: &configv1.ClusterOperator{}, name: clusterOperatorName},
		// These objects have the platform, the feature gates, the proxy, and the TLS profile.
		{object: &configv1.Infrastructure{}, name: openshift.Singleton},
		{object: &configv1.FeatureGate{}, name: openshift.Singleton},
		{object: &configv1.Proxy{}, name: openshift.Singleton},
		{object: openshift.APIServer(), name: openshift.Singleton},
		// The drivers' operators report in these objects.
		{object: &operatorv1.ClusterCSIDriver{}, all: true},
		// To count the defaults.
		{object: &storagev1.StorageClass{}, all: true},
	}
	if s.AttributesClasses {
		// This program compares the parameters of a driver's VolumeAttributesClasses.
		list = append(list, watched{object: &storagev1.VolumeAttributesClass{}, all: true})
	}
	if len(s.Entries) > 0 {
		// This program must see the CSIDrivers of other owners, because it must not disturb the drivers of these owners.
		list = append(list, watched{object: &storagev1.CSIDriver{}, all: true})
	}
	// This program applies these objects, reverts changes by other clients, and reports roll-outs.
	applied := s.namespaces()
	for _, kind := range slices.SortedFunc(maps.Keys(applied), func(a, b schema.GroupVersionKind) int {
		return slices.Compare([]string{a.Group, a.Kind}, []string{b.Group, b.Kind})
	}) {
		object, err := scheme.New(kind)
		if err != nil {
			return nil, fmt.Errorf("kind %s of the catalogue: %w", kind, err)
		}
		typed, ok := object.(client.Object)
		if !ok {
			return nil, fmt.Errorf("kind %s of the catalogue has no metadata", kind)
		}
		namespaces := slices.DeleteFunc(slices.Sorted(slices.Values(applied[kind])), func(name string) bool { return name == "" })
		list = append(list, watched{object: typed, namespaces: namespaces})
	}
	for kind, served := range s.Kinds {
		if !served {
			list = append(list, watched{object: apply.CRD(), name: crdName(kind), restarts: true})
		}
	}
	return list, nil
}

func crdName(kind schema.GroupKind) string {
	plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion("v1"))
	return plural.Resource + "." + kind.Group
}

// CacheOptions selects the part of each kind that the manager caches.
func (s Scope) CacheOptions(scheme *runtime.Scheme) (map[client.Object]cache.ByObject, error) {
	list, err := s.watches(scheme)
	if err != nil {
		return nil, err
	}
	options := map[client.Object]cache.ByObject{}
	for _, watch := range list {
		config := cache.ByObject{}
		switch {
		case watch.name != "":
			config.Field = fields.OneTermEqualSelector("metadata.name", watch.name)
		case watch.all:
		default:
			config.Label = labels.SelectorFromSet(ownLabels())
		}
		for _, namespace := range watch.namespaces {
			if config.Namespaces == nil {
				config.Namespaces = map[string]cache.Config{}
			}
			config.Namespaces[namespace] = cache.Config{}
		}
		options[watch.object] = config
	}
	return options, nil
}

func ownLabels() labels.Set { return labels.Set{openshift.ManagedByLabel: catalogue.Operator} }

// SetupWithManager adds the controller to the manager. Events of the cache Conflicts trigger reconciles, too.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager, conflicts cache.Cache) error {
	if err := r.prepare(); err != nil {
		return err
	}
	list, err := r.Scope.watches(r.Client.Scheme())
	if err != nil {
		return err
	}
	build := ctrl.NewControllerManagedBy(manager).Named("storage").WithOptions(controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, time.Minute),
	})
	for _, watch := range list {
		if watch.restarts {
			build = build.Watches(watch.object, apply.WhenServed("v1", r.Restart))
			continue
		}
		build = build.Watches(watch.object, r.applier.Wake(request()))
	}
	build = build.WatchesRawSource(source.Kind(conflicts, client.Object(&corev1.ConfigMap{}), r.applier.Wake(request())))
	// This triggers one reconcile even if no object exists.
	build = build.WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
		q.Add(request())
		return nil
	}))
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("set up controller storage: %w", err)
	}
	return nil
}

func (r *Reconciler) prepare() error {
	r.volumes = map[string]volumes{}
	r.predecessors = &olm.Operators{Writer: r.Client, Live: r.Live, Create: r.createWith, Now: r.Now}
	r.applier = &apply.Applier{
		Client: r.Client, Live: r.Live, FieldManager: catalogue.Operator, Labels: client.MatchingLabels(ownLabels()), Mutations: apply.NewMutationCache(),
		Settled: apply.Settled{},
	}
	measured, err := newMetrics(registry.Registry)
	if err != nil {
		return err
	}
	remember := r.applier.Mutations.Remember
	writer := func() *status.Writer {
		return &status.Writer{Client: r.Client, Owner: catalogue.Operator, Now: r.Now, Remember: remember}
	}
	r.reporter = &reporter{
		memory:    memory{failures: &status.Failures{Now: r.Now}, rollouts: &status.Rollouts{Now: r.Now}, waits: &status.Waits{Now: r.Now}},
		catalogue: r.Catalogue, scope: r.Scope, namespace: r.Namespace,
		storage: writer(), operator: writer(), client: r.Client, remember: remember, events: r.Events, metrics: measured,
	}
	return nil
}

// applierOf returns the applier for the objects of one catalogue entry.
func (r *Reconciler) applierOf(entry catalogue.Entry) *apply.Applier {
	one := *r.applier
	for _, object := range r.Scope.objects[entry.Name] {
		// This program never removes a namespace, because the namespace may contain objects of other owners.
		if subject := apply.SubjectOf(object); subject.Kind != "Namespace" && r.Scope.serves(subject.GroupKind()) {
			one.Inventory = append(one.Inventory, subject)
		}
	}
	return &one
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// request returns the only request of this controller. Every event leads to this request, because one reconcile handles the whole cluster.
func request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: openshift.Singleton}}
}
