package clustercsidriver

import (
	"context"
	"fmt"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/internal/apply"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/nodes"
	"github.com/csi-operators/csi-operators/internal/openshift"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/snapshot/v1"
	"github.com/csi-operators/csi-operators/internal/status"
)

// watched is one kind that wakes the controller up, and the part of it that is held in memory.
type watched struct {
	object client.Object
	// namespace to look in; empty for cluster-scoped kinds.
	namespace string
	// other, if set, is the only object that is looked at in another namespace.
	other client.ObjectKey
	// foreign says that other is OpenShift's: it has no label of ours, and only the CA certificates of the cloud are kept of it.
	foreign bool
	// name, if set, is the only object of the kind that is looked at; else those with our label are, or all.
	name string
	all  bool
	// apps, if set, are values of the label app, of which the objects have one.
	apps []string
	// optional, if set, is the kind's name: it is watched only where the cluster serves it.
	optional schema.GroupKind
	// transform, if set, drops what is not needed from memory.
	transform toolscache.TransformFunc
	// matters, if set, tells whether an update is worth a reconcile, some time; that objects come and go is not.
	matters func(before, after client.Object) bool
	// late marks the definition of a kind that the operator starts anew to use.
	late bool
}

// watches is the one list of what the operator looks at, in the order in which objects are applied.
func watches(d driver.Driver, namespace string, kinds map[schema.GroupKind]bool) []watched {
	return append([]watched{
		// What the user wants.
		{object: &operatorv1.ClusterCSIDriver{}, name: d.Name},
		// The cluster's name and topology, and how it hands out credentials.
		{object: &configv1.Infrastructure{}, name: openshift.Singleton, optional: openshift.InfrastructureKind()},
		{object: &operatorv1.CloudCredential{}, name: openshift.Singleton, optional: openshift.CloudCredentialKind()},
		// The way to the cloud, and the TLS profile of servers.
		{object: &configv1.Proxy{}, name: openshift.Singleton, optional: openshift.ProxyKind()},
		{object: apiServer(), name: openshift.Singleton, optional: openshift.APIServerKind().GroupKind()},
		// What we apply: changes by others are undone.
		{object: &corev1.ServiceAccount{}, namespace: namespace},
		{object: &rbacv1.ClusterRole{}},
		{object: &rbacv1.Role{}, namespace: namespace},
		{object: &rbacv1.ClusterRoleBinding{}},
		{object: &rbacv1.RoleBinding{}, namespace: namespace},
		{
			object: &cloudcredentialv1.CredentialsRequest{}, namespace: cloudcredentialv1.Namespace,
			optional: driver.CredentialsRequestKind(),
		},
		{
			object: &corev1.ConfigMap{}, namespace: namespace, other: managedConfig(d, kinds), foreign: d.CloudCAVariable != "",
			transform: hashBundle,
		},
		// By name, because one that belongs to somebody else must be seen as well.
		{object: &storagev1.CSIDriver{}, name: d.Name},
		// All of them, if only one is to be the default.
		{object: &storagev1.StorageClass{}, name: d.StorageClass, all: d.StorageClass == ""},
		{object: &corev1.Service{}, namespace: namespace},
		{object: &monitoringv1.ServiceMonitor{}, namespace: namespace, optional: driver.ServiceMonitorKind()},
		{object: &policyv1.PodDisruptionBudget{}, namespace: namespace},
		// Their roll-out is reported.
		{object: &appsv1.DaemonSet{}, namespace: namespace},
		{object: &appsv1.Deployment{}, namespace: namespace},
		// Why a roll-out does not go on.
		{
			object: &corev1.Pod{}, namespace: namespace, apps: append([]string{d.Deployment}, d.NodeApps()...),
			transform: stripPod, matters: changesHealth,
		},
	}, slices.Concat(gates(d), snapshots(d, kinds))...)
}

// gates are watched for drivers that depend on some.
func gates(d driver.Driver) []watched {
	if len(d.FeatureGates) == 0 {
		return nil
	}
	return []watched{{object: &configv1.FeatureGate{}, name: openshift.Singleton, optional: openshift.FeatureGateKind()}}
}

// managedConfig is the ConfigMap that matters among those that OpenShift makes for all: a cache can select one of a namespace.
func managedConfig(d driver.Driver, kinds map[schema.GroupKind]bool) client.ObjectKey {
	switch {
	case !kinds[openshift.InfrastructureKind()]:
		return client.ObjectKey{}
	case d.CloudCAVariable != "":
		return cloudConfig()
	default:
		return client.ObjectKey{Namespace: driver.ManagedNamespace, Name: d.Dashboard()}
	}
}

// snapshots are the classes of snapshots, for drivers that make any. Where they are not served yet, their definition is looked at.
func snapshots(d driver.Driver, kinds map[schema.GroupKind]bool) []watched {
	kind := driver.VolumeSnapshotClassKind()
	switch {
	case !slices.Contains(d.OptionalKinds(), kind):
		return nil
	case kinds[kind]:
		return []watched{{object: &snapshotv1.VolumeSnapshotClass{}, all: true, optional: kind}}
	default:
		return []watched{{object: apply.Definition(), name: snapshotv1.Definition, late: true}}
	}
}

func apiServer() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(openshift.APIServerKind())
	return object
}

// stripPod keeps what the status tells about a pod.
func stripPod(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields, pod.Annotations = nil, nil
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, ServiceAccountName: pod.Spec.ServiceAccountName}
		for _, containers := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range containers {
				containers[i] = corev1.ContainerStatus{State: containers[i].State}
			}
		}
	}
	return object, nil
}

// changesHealth is false for the many updates of a pod that say nothing new; that pods come and go is seen in the
// workloads.
func changesHealth(before, after client.Object) bool {
	old, isPod := before.(*corev1.Pod)
	pod, stillPod := after.(*corev1.Pod)
	return !isPod || !stillPod || status.PodProblem(old) != status.PodProblem(pod)
}

// served is watches without the kinds that this cluster does not have.
func served(d driver.Driver, namespace string, kinds map[schema.GroupKind]bool) []watched {
	return slices.DeleteFunc(watches(d, namespace, kinds), func(watch watched) bool {
		return watch.optional != schema.GroupKind{} && !kinds[watch.optional]
	})
}

// CacheOptions tells the manager which part of each kind to hold in memory.
func CacheOptions(d driver.Driver, namespace string, kinds map[schema.GroupKind]bool) map[client.Object]cache.ByObject {
	options := map[client.Object]cache.ByObject{}
	for _, watch := range served(d, namespace, kinds) {
		config := cache.ByObject{Transform: watch.transform}
		switch {
		case watch.name != "":
			config.Field = fields.OneTermEqualSelector("metadata.name", watch.name)
		case len(watch.apps) > 0:
			config.Label = withApp(watch.apps)
		case watch.all:
		default:
			config.Label = labels.SelectorFromSet(ownLabels(d))
		}
		if watch.namespace != "" {
			config.Namespaces = map[string]cache.Config{watch.namespace: {}}
		}
		if watch.other.Name != "" {
			one := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", watch.other.Name)}
			if watch.foreign {
				one.LabelSelector, one.Transform = labels.Everything(), keepCloudCA
			}
			config.Namespaces[watch.other.Namespace] = one
		}
		options[watch.object] = config
	}
	return options
}

// withApp selects objects whose label app has one of the values.
func withApp(values []string) labels.Selector {
	requirement, err := labels.NewRequirement("app", selection.In, values)
	if err != nil {
		// Values that can't be a label select nothing.
		return labels.Nothing()
	}
	return labels.NewSelector().Add(*requirement)
}

// SecretCaches holds each Secret of the driver, alone and hashed. A cache can select one name only, and the operator has
// no right to see any other Secret.
func SecretCaches(manager ctrl.Manager, d driver.Driver, namespace string) (map[string]cache.Cache, error) {
	caches := map[string]cache.Cache{}
	for _, credentials := range d.Credentials {
		one, err := cache.New(manager.GetConfig(), cache.Options{
			Scheme: manager.GetScheme(), Mapper: manager.GetRESTMapper(), HTTPClient: manager.GetHTTPClient(),
			ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
				Field:      fields.OneTermEqualSelector("metadata.name", credentials.Secret),
				Namespaces: map[string]cache.Config{namespace: {}},
				Transform:  HashSecret,
			}},
			ReaderFailOnMissingInformer: true,
		})
		if err != nil {
			return nil, fmt.Errorf("cache of Secret %s: %w", credentials.Secret, err)
		}
		if err := manager.Add(one); err != nil {
			return nil, fmt.Errorf("add cache of Secret %s: %w", credentials.Secret, err)
		}
		caches[credentials.Secret] = one
	}
	return caches, nil
}

func ownLabels(d driver.Driver) labels.Set {
	return labels.Set{openshift.ManagedByLabel: d.Operator}
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	if err := r.prepare(); err != nil {
		return err
	}
	build := ctrl.NewControllerManagedBy(manager).Named("clustercsidriver").WithOptions(controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, time.Minute),
	})
	for _, watch := range served(r.Driver, r.Namespace, r.Kinds) {
		if watch.late {
			build = build.Watches(watch.object, apply.WhenServed(snapshotv1.GroupVersion().Version, r.Restart))
			continue
		}
		if watch.matters == nil {
			build = build.Watches(watch.object, r.applier.Wake(r.request()))
			continue
		}
		build = build.Watches(watch.object, handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if watch.matters(e.ObjectOld, e.ObjectNew) {
				// Many at once are one look: what they change is a message, which is not written more often either.
				q.AddAfter(r.request(), messageInterval)
			}
		}})
	}
	for _, secret := range r.Secrets {
		build = build.WatchesRawSource(source.Kind(secret, client.Object(&corev1.Secret{}), r.applier.Wake(r.request())))
	}
	for _, predecessor := range r.Predecessors {
		for _, events := range predecessor.events(handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{r.request()}
		})) {
			build = build.WatchesRawSource(events)
		}
	}
	// Without a ClusterCSIDriver there is no event, but something to tell.
	build = build.WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
		q.Add(r.request())
		return nil
	}))
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("set up controller clustercsidriver: %w", err)
	}
	return nil
}

// prepare makes the parts of the reconciler.
func (r *Reconciler) prepare() error {
	r.told = map[types.UID]bool{}
	r.failures = &status.Failures{Now: r.Now}
	r.rollouts = &status.Rollouts{Now: r.Now}
	r.reporter = &reporter{Reconciler: r}
	var err error
	if r.metrics, err = newMetrics(registry.Registry, r.Driver.Name); err != nil {
		return err
	}
	return r.prepareApplier()
}

// prepareApplier makes what compares and writes the objects.
func (r *Reconciler) prepareApplier() error {
	r.replacer = &nodes.Replacer{Client: r.Client, Live: r.Live, Driver: r.Driver.Name, IsOld: r.Driver.IsOld, Now: r.Now}
	r.applier = &apply.Applier{
		Client: r.Client, Live: r.Live, Owner: r.Driver.Operator,
		Labels:     client.MatchingLabels(ownLabels(r.Driver)),
		CreateOnly: map[schema.GroupKind]bool{{Group: storagev1.GroupName, Kind: "StorageClass"}: true},
		Written:    apply.NewWritten(),
	}
	if r.Driver.StorageClass == "" {
		// The driver's own classes follow the ClusterCSIDriver, and nobody else has made them but an operator before this one.
		r.applier.Remade = map[schema.GroupKind]bool{{Group: storagev1.GroupName, Kind: "StorageClass"}: true}
		r.applier.Ours = func(live *unstructured.Unstructured) bool { return live.Object["provisioner"] == r.Driver.Name }
	}
	for _, predecessor := range r.Driver.Predecessors {
		if predecessor.Label != "" {
			r.applier.FormerLabels = append(r.applier.FormerLabels, predecessor.Label)
			r.applier.FormerOwners = append(r.applier.FormerOwners, predecessor.Owner)
		}
	}
	everything, err := r.Driver.Everything(r.Client.Scheme(), r.Namespace, r.Settings)
	if err != nil {
		return err
	}
	// One list decides what is looked at and what can be ours.
	namespaces := map[string]bool{"": true}
	for _, watch := range served(r.Driver, r.Namespace, r.Kinds) {
		namespaces[watch.namespace], namespaces[watch.other.Namespace] = true, true
	}
	for _, object := range everything {
		if subject := apply.SubjectOf(object); r.serves(subject.GroupKind()) && namespaces[subject.Namespace] {
			r.applier.Known = append(r.applier.Known, subject)
		}
	}
	return nil
}

// queue is where events go.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// request is the only one that there is.
func (r *Reconciler) request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: r.Driver.Name}}
}

// serves tells whether the cluster has a kind; only that of optional kinds is in question.
func (r *Reconciler) serves(kind schema.GroupKind) bool {
	_, optional := OptionalKinds(r.Driver)[kind]
	return !optional || r.Kinds[kind]
}
