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

// clusterOperatorName is the ClusterOperator that this program reports in.
const clusterOperatorName = "storage"

// Scope is the part of a catalogue that this cluster can need as it is now. Nothing else is watched.
type Scope struct {
	Entries []catalogue.Entry
	// Kinds are the optional kinds of its objects, and whether the cluster serves them.
	Kinds map[schema.GroupKind]bool
	// AttributesClasses says that the cluster serves VolumeAttributesClasses.
	AttributesClasses bool
	// objects are all that the entries can ever have.
	objects map[string][]client.Object
}

// Look finds the scope: what the platform needs, and what was started before on another one.
func Look(
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

// startedBefore reports whether this program, in whatever version, has started an entry.
func startedBefore(ctx context.Context, live client.Reader) (func(entry catalogue.Entry) bool, error) {
	drivers := &operatorv1.ClusterCSIDriverList{}
	if err := live.List(ctx, drivers); err != nil {
		return nil, fmt.Errorf("list ClusterCSIDrivers: %w", err)
	}
	// The ClusterCSIDriver may be an administrator's, or have gone.
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

// optional kinds come with the monitoring of the cluster, which is installed later or not at all.
func optional(kind schema.GroupKind) bool { return kind == catalogue.ServiceMonitorKind() }

// has reports whether an entry is in the scope.
func (s Scope) has(entry catalogue.Entry) bool { return s.objects[entry.Name] != nil }

// serves reports whether the cluster has a kind; only that of optional kinds is in question.
func (s Scope) serves(kind schema.GroupKind) bool { return !optional(kind) || s.Kinds[kind] }

// namespaced are the kinds of the objects, with the namespaces in which they are; that of kinds without one is empty.
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

// watched is one kind that wakes the controller up, and the part of it that is held in memory.
type watched struct {
	object client.Object
	// name, if set, is the only object of the kind that is looked at; else those with our label are, or all.
	name string
	all  bool
	// namespaces to look in; none for cluster-scoped kinds.
	namespaces []string
	// restarts marks a CRD: the program starts anew when its kind is served.
	restarts bool
}

// watches is the one list of what the program looks at.
func (s Scope) watches(scheme *runtime.Scheme) ([]watched, error) {
	list := []watched{
		// What the administrator wants, and where it is reported.
		{object: &operatorv1.Storage{}, name: openshift.Singleton},
		{object: &configv1.ClusterOperator{}, name: clusterOperatorName},
		// The platform, its features, the way out of it, and the TLS profile of servers.
		{object: &configv1.Infrastructure{}, name: openshift.Singleton},
		{object: &configv1.FeatureGate{}, name: openshift.Singleton},
		{object: &configv1.Proxy{}, name: openshift.Singleton},
		{object: openshift.APIServer(), name: openshift.Singleton},
		// What the operators of drivers report in.
		{object: &operatorv1.ClusterCSIDriver{}, all: true},
		// How many are the default.
		{object: &storagev1.StorageClass{}, all: true},
	}
	if s.AttributesClasses {
		// Whether those of a driver agree.
		list = append(list, watched{object: &storagev1.VolumeAttributesClass{}, all: true})
	}
	if len(s.Entries) > 0 {
		// Somebody else's are not touched.
		list = append(list, watched{object: &storagev1.CSIDriver{}, all: true})
	}
	// What we apply: changes by others are undone, and the roll-out of operators is reported.
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

// CacheOptions tells the manager which part of each kind to hold in memory.
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

// SetupWithManager adds the controller to the manager. The cache is Conflicts, whose events wake it up.
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
	// Even a cluster that lacks everything is looked at once.
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

// applierOf is the applier for the objects of one entry.
func (r *Reconciler) applierOf(entry catalogue.Entry) *apply.Applier {
	one := *r.applier
	for _, object := range r.Scope.objects[entry.Name] {
		// A namespace is never removed: it may hold what others have put there.
		if subject := apply.SubjectOf(object); subject.Kind != "Namespace" && r.Scope.serves(subject.GroupKind()) {
			one.Inventory = append(one.Inventory, subject)
		}
	}
	return &one
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// request is the only one that there is.
func request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: openshift.Singleton}}
}
