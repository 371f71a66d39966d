package vspherehealth

import (
	"context"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/internal/kube/informer"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// SetupWithManager adds the controller to the manager. The controller watches nodes, PersistentVolumes and CSINodes through caches outside of the
// manager's cache.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	var err error
	if r.metrics, err = newMetrics(registry.Registry, r.Driver.Name); err != nil {
		return err
	}
	r.writer = &status.Writer{Client: r.Client, Owner: r.owner(), Now: r.Now}
	api, err := informer.NewClient(manager)
	if err != nil {
		return err
	}
	r.followAll(api)
	wake := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{r.request()} })
	err = ctrl.NewControllerManagedBy(manager).Named("vsphere").
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 10*time.Minute),
		}).
		// Changes of the management state and of our conditions trigger a reconcile.
		Watches(&operatorv1.ClusterCSIDriver{}, wake, builder.WithPredicates(only(r.Driver.Name))).
		// The failure domains.
		Watches(&configv1.Infrastructure{}, wake).
		// The placement of volumes.
		Watches(&storagev1.StorageClass{}, wake).
		// Another vendor's driver.
		Watches(&storagev1.CSIDriver{}, wake, builder.WithPredicates(only(r.Driver.Name))).
		WatchesRawSource(r.csiNodes).
		// The subject of polls.
		WatchesRawSource(r.nodes).
		WatchesRawSource(r.volumes).
		// The answers of polls.
		WatchesRawSource(source.Channel(r.Source.Changed(), wake)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller vsphere: %w", err)
	}
	return nil
}

func (r *Reconciler) followAll(api client.WithWatch) {
	nodes := func() client.ObjectList { return &corev1.NodeList{} }
	r.nodes = informer.New(api, &corev1.Node{}, nodes, r.request(), nodeOf)
	volumes := func() client.ObjectList { return &corev1.PersistentVolumeList{} }
	r.volumes = informer.New(api, &corev1.PersistentVolume{}, volumes, r.request(), func(object client.Object) (volume, bool) {
		from, ok := object.(*corev1.PersistentVolume)
		if !ok {
			return volume{}, false
		}
		return volumeOf(from, r.Driver.Name)
	})
	r.csiNodes = informer.CSINodes(api, r.Driver.Name, r.request())
}

// owner returns the field manager of the conditions about checks. The ClusterCSIDriver controller writes the driver's other conditions with another
// field manager.
func (r *Reconciler) owner() string { return r.Driver.Operator + "-checks" }

func (r *Reconciler) request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: r.Driver.Name}}
}

func only(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == name })
}
