package sharedvolume

import (
	"context"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/fields"
	k8slabels "k8s.io/apimachinery/pkg/labels"
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

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/crdstatus"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/fair"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// CacheOptions returns the cache options of the kinds that these controllers read. The ClusterCSIDriver controller sets the options of CSIDrivers and
// ClusterCSIDrivers. A cache accepts no options for a kind that the cluster does not serve yet. So Strip is the manager's default transform, and
// applies to SharedVolumes.
func CacheOptions(operator string, served, policies bool) map[client.Object]cache.ByObject {
	owned := k8slabels.SelectorFromSet(k8slabels.Set{ownedLabel: "true"})
	options := map[client.Object]cache.ByObject{
		&corev1.PersistentVolume{}:      {Label: owned, Transform: stripVolume},
		&corev1.PersistentVolumeClaim{}: {Label: owned, Transform: stripPVC},
		namespaceMetadata():             {Transform: stripNamespace},
		apply.CRD():                     {Field: fields.OneTermEqualSelector("metadata.name", crdName), Transform: crdstatus.Strip},
	}
	if served {
		options[&v1alpha1.SharedVolume{}] = cache.ByObject{Transform: Strip}
	}
	if policies {
		ours := k8slabels.SelectorFromSet(ownLabels(operator))
		options[&admissionv1.ValidatingAdmissionPolicy{}] = cache.ByObject{Label: ours}
		options[&admissionv1.ValidatingAdmissionPolicyBinding{}] = cache.ByObject{Label: ours}
	}
	return options
}

// SetupWithManager adds the controller to the manager.
func (r *AdmissionReconciler) SetupWithManager(manager ctrl.Manager) error {
	r.applier = &apply.Applier{
		Client: r.Client, Live: r.Live, FieldManager: r.Owner, Labels: ownLabels(r.Owner), Mutations: apply.NewMutationCache(),
	}
	r.writer = &status.Writer{Client: r.Client, Owner: r.Owner + "-sharedvolumes", Now: r.Now}
	r.open = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: MetricOpen, Help: "1 if namespaces without a list may use every share although other namespaces have a list.",
	})
	if err := registry.Registry.Register(r.open); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	wake := r.applier.Wake(reconcile.Request{NamespacedName: client.ObjectKey{Name: crdName}})
	build := ctrl.NewControllerManagedBy(manager).Named("sharedvolume-admission").
		Watches(apply.CRD(), wake).
		// An event arrives when another copy of this operator starts or stops.
		WatchesRawSource(r.Others.Namesake.Events(wake)).
		Watches(&operatorv1.ClusterCSIDriver{}, wake, builder.WithPredicates(predicate.Or(changed(UnlistedAnnotation), conditionsChanged(r.Prefix)))).
		Watches(namespaceMetadata(), wake, builder.WithPredicates(listChanged()))
	if r.Policies {
		build = build.Watches(&admissionv1.ValidatingAdmissionPolicy{}, wake).Watches(&admissionv1.ValidatingAdmissionPolicyBinding{}, wake)
	}
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("set up controller sharedvolume-admission: %w", err)
	}
	return nil
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	r.pacer = fair.NewPacer("NameTaken", "QuotaExceeded", "Forbidden", "Refused")
	r.writer = &status.Writer{Client: r.Client, Owner: r.Owner, Now: r.Now}
	var err error
	if r.metrics, err = newMetrics(registry.Registry); err != nil {
		return err
	}
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return r.in(ctx, "", "") })
	build := ctrl.NewControllerManagedBy(manager).Named("sharedvolume").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: limiter(), NewQueue: fair.Queue(workers)}).
		For(&v1alpha1.SharedVolume{}).
		// The volume and the PVC.
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(ofVolume)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(ofPVC)).
		// The limits of a namespace.
		Watches(namespaceMetadata(), handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
			return r.in(ctx, object.GetName(), "")
		}), builder.WithPredicates(changed(AllowedAnnotation))).
		Watches(&operatorv1.ClusterCSIDriver{}, all, builder.WithPredicates(changed(UnlistedAnnotation))).
		// The fields of the status.
		Watches(apply.CRD(), all, builder.WithPredicates(crdChanged())).
		// Condition DriverInstalled.
		Watches(&storagev1.CSIDriver{}, all, builder.WithPredicates(changed(""))).
		// Conflicting operators start or stop.
		WatchesRawSource(r.Others.Community.Events(all)).
		WatchesRawSource(r.Others.Namesake.Events(all))
	if r.Policies {
		// The unlisted policy exists while the operator denies SharedVolumes in namespaces without a list.
		build = build.Watches(&admissionv1.ValidatingAdmissionPolicy{}, all,
			builder.WithPredicates(changed(""), predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == unlistedPolicy })))
	}
	if r.Shares != nil {
		// Shares sends an event when a file system in AWS or the zones of nodes change.
		its := func(ctx context.Context, object client.Object) []reconcile.Request {
			return r.in(ctx, "", object.GetName())
		}
		build = build.WatchesRawSource(r.Shares.Events(handler.EnqueueRequestsFromMapFunc(its)))
	}
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("set up controller sharedvolume: %w", err)
	}
	return nil
}

// SetupWithManager adds the controller to the manager.
func (r *VolumeReconciler) SetupWithManager(manager ctrl.Manager) error {
	deleted := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
	})
	err := ctrl.NewControllerManagedBy(manager).Named("sharedvolume-volumes").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: limiter()}).
		For(&corev1.PersistentVolume{}).
		Watches(&v1alpha1.SharedVolume{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, owner client.Object) []reconcile.Request {
			return requests("", plainVolumeName(owner.GetNamespace(), owner.GetName()),
				uniqueVolumeName(owner.GetNamespace(), owner.GetName(), string(owner.GetUID())))
		}), deleted).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
			if pvc, ok := object.(*corev1.PersistentVolumeClaim); ok && pvc.Spec.VolumeName != "" {
				return requests("", pvc.Spec.VolumeName)
			}
			return nil
		}), deleted).
		WatchesRawSource(r.Others.Community.Events(handler.EnqueueRequestsFromMapFunc(r.all))).
		WatchesRawSource(r.Others.Namesake.Events(handler.EnqueueRequestsFromMapFunc(r.all))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller sharedvolume-volumes: %w", err)
	}
	return nil
}

// limiter limits the retries after errors. The first retries come fast, because the API server may soon accept a refused request and no event shows
// that.
func limiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, time.Minute)
}
