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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/apply"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/status"
)

// watched is one kind that wakes the controller up, and the part of it that is held in memory.
type watched struct {
	object client.Object
	// namespace to look in; empty for cluster-scoped kinds.
	namespace string
	// name, if set, is the only object of the kind that is looked at; else those with our label are.
	name string
	// optional, if set, is the kind's name: it is watched only where the cluster serves it.
	optional schema.GroupKind
}

// watches is the one list of what the operator looks at, in the order in which objects are applied.
func watches(d driver.Driver, namespace string) []watched {
	return []watched{
		// What the user wants.
		{object: &operatorv1.ClusterCSIDriver{}, name: d.Name},
		// The cluster's name and topology, and how it hands out credentials.
		{object: &configv1.Infrastructure{}, name: singleton, optional: InfrastructureKind()},
		{object: &operatorv1.CloudCredential{}, name: singleton, optional: CloudCredentialKind()},
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
		{object: &corev1.ConfigMap{}, namespace: namespace},
		// By name, because one that belongs to somebody else must be seen as well.
		{object: &storagev1.CSIDriver{}, name: d.Name},
		{object: &storagev1.StorageClass{}, name: d.StorageClass},
		{object: &corev1.Service{}, namespace: namespace},
		{object: &monitoringv1.ServiceMonitor{}, namespace: namespace, optional: driver.ServiceMonitorKind()},
		{object: &policyv1.PodDisruptionBudget{}, namespace: namespace},
		// Their roll-out is reported.
		{object: &appsv1.DaemonSet{}, namespace: namespace},
		{object: &appsv1.Deployment{}, namespace: namespace},
	}
}

// served is watches without the kinds that this cluster does not have.
func served(d driver.Driver, namespace string, kinds map[schema.GroupKind]bool) []watched {
	return slices.DeleteFunc(watches(d, namespace), func(watch watched) bool {
		return watch.optional != schema.GroupKind{} && !kinds[watch.optional]
	})
}

// CacheOptions tells the manager which part of each kind to hold in memory.
func CacheOptions(d driver.Driver, namespace string, kinds map[schema.GroupKind]bool) map[client.Object]cache.ByObject {
	options := map[client.Object]cache.ByObject{}
	for _, watch := range served(d, namespace, kinds) {
		config := cache.ByObject{}
		if watch.name != "" {
			config.Field = fields.OneTermEqualSelector("metadata.name", watch.name)
		} else {
			config.Label = labels.SelectorFromSet(ownLabels(d))
		}
		if watch.namespace != "" {
			config.Namespaces = map[string]cache.Config{watch.namespace: {}}
		}
		options[watch.object] = config
	}
	return options
}

func ownLabels(d driver.Driver) labels.Set {
	return labels.Set{driver.ManagedByLabel: d.Operator}
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	r.failures = &status.Failures{Now: r.Now}
	r.reporter = &reporter{Reconciler: r}
	r.applier = &apply.Applier{
		Client: r.Client, Live: r.Live, Owner: r.Driver.Operator,
		Labels:     client.MatchingLabels(ownLabels(r.Driver)),
		CreateOnly: map[schema.GroupKind]bool{{Group: storagev1.GroupName, Kind: "StorageClass"}: true},
		Written:    apply.NewWritten(),
	}
	build := ctrl.NewControllerManagedBy(manager).Named("clustercsidriver").WithOptions(controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, time.Minute),
	})
	for _, watch := range served(r.Driver, r.Namespace, r.Kinds) {
		build = build.Watches(watch.object, r.wake())
	}
	everything, err := r.Driver.Everything(r.Client.Scheme(), r.Namespace)
	if err != nil {
		return err
	}
	for _, object := range everything {
		if subject := apply.SubjectOf(object); r.serves(subject.GroupKind()) {
			r.applier.Known = append(r.applier.Known, subject)
		}
	}
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("set up controller clustercsidriver: %w", err)
	}
	return nil
}

// serves tells whether the cluster has a kind; only that of optional kinds is in question.
func (r *Reconciler) serves(kind schema.GroupKind) bool {
	_, optional := OptionalKinds()[kind]
	return !optional || r.Kinds[kind]
}

// wake turns every event into one request for the one ClusterCSIDriver. A deletion is remembered as such, because the
// cache can't tell an object that has gone from one that has not come yet.
func (r *Reconciler) wake() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	request := reconcile.Request{NamespacedName: client.ObjectKey{Name: r.Driver.Name}}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.Add(request) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { q.Add(request) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			if kind, err := apiutil.GVKForObject(e.Object, r.Client.Scheme()); err == nil {
				r.applier.Written.Forget(apply.Subject{GroupVersionKind: kind, ObjectKey: client.ObjectKeyFromObject(e.Object)})
			}
			q.Add(request)
		},
	}
}
