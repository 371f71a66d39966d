package sharedvolume

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/crdstatus"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// changed returns a predicate that passes all creations and deletions, and the updates that change this annotation.
func changed(annotation string) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.GetAnnotations()[annotation]
		after, is := e.ObjectNew.GetAnnotations()[annotation]
		return was != is || before != after
	}}
}

// listChanged returns a predicate for the events of namespaces. AllowedAnnotation on a namespace lists the allowed shares. The predicate passes an
// update only if the update adds or removes this annotation. It passes a creation or deletion only if the namespace has this annotation.
func listChanged() predicate.Predicate {
	isListed := func(object client.Object) bool {
		_, listed := object.GetAnnotations()[AllowedAnnotation]
		return listed
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return isListed(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return isListed(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return isListed(e.ObjectOld) != isListed(e.ObjectNew) },
	}
}

// conditionsChanged returns a predicate for the events of ClusterCSIDrivers. The predicate passes an update only if the update changes conditions
// about SharedVolumes. It passes all creations and deletions.
func conditionsChanged(prefix string) predicate.Predicate {
	of := func(object client.Object) []operatorv1.OperatorCondition {
		if cr, ok := object.(*operatorv1.ClusterCSIDriver); ok {
			return status.Among(cr.Status.Conditions, ownConditions(prefix)...)
		}
		return nil
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !reflect.DeepEqual(of(e.ObjectOld), of(e.ObjectNew)) }}
}

// crdChanged returns a predicate for the events of CRDs. The predicate passes an update only if the update adds status fields to the schema of the
// CRD, or removes such fields. It passes all deletions, but no creation.
func crdChanged() predicate.Predicate {
	lacks := func(object client.Object) []string {
		if crd, ok := object.(*unstructured.Unstructured); ok {
			return crdstatus.Lacking(crd)
		}
		return nil
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return !slices.Equal(lacks(e.ObjectOld), lacks(e.ObjectNew)) },
	}
}

// in returns a request for each SharedVolume that is in the namespace and uses the file system. An empty namespace means all namespaces. An empty
// fileSystem means all file systems.
func (r *Reconciler) in(ctx context.Context, namespace, fileSystem string) []reconcile.Request {
	list := &v1alpha1.SharedVolumeList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list SharedVolumes", "namespace", namespace)
		return nil
	}
	return on(list.Items, fileSystem)
}

// on returns a request for each SharedVolume in argument "owners" that uses the file system. An empty fileSystem means all file systems.
func on(owners []v1alpha1.SharedVolume, fileSystem string) []reconcile.Request {
	requests := make([]reconcile.Request, 0, len(owners))
	for i := range owners {
		if fileSystem == "" || owners[i].Spec.FileSystemID == fileSystem {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&owners[i])})
		}
	}
	return requests
}

func (r *VolumeReconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &corev1.PersistentVolumeList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list PersistentVolumes")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// ofVolume returns a request for the SharedVolume that owns a volume. The SharedVolume's name is in annotation ownerNameAnnotation. Volumes of the
// predecessor have the name in label ownerNameLabel instead.
func ofVolume(_ context.Context, object client.Object) []reconcile.Request {
	if volume, ok := object.(*corev1.PersistentVolume); ok {
		// Do not modify the cached object.
		own := *volume
		object = &own
		unfold(object)
	}
	key := client.ObjectKey{
		Namespace: object.GetLabels()[ownerNamespaceLabel],
		Name:      cmp.Or(object.GetAnnotations()[ownerNameAnnotation], object.GetLabels()[ownerNameLabel]),
	}
	if key.Namespace == "" || key.Name == "" {
		return nil
	}
	return requests(key.Namespace, key.Name)
}

// ofPVC returns requests for the SharedVolumes to which a PVC may belong. The first is the SharedVolume whose name is in the PVC's name. The others
// are the PVC's owners, because the PVC's name may contain only the beginning of a long SharedVolume's name.
func ofPVC(_ context.Context, object client.Object) []reconcile.Request {
	name, _ := strings.CutPrefix(object.GetName(), pvcName(""))
	names := []string{name}
	if pvc, ok := object.(*corev1.PersistentVolumeClaim); ok {
		for _, owner := range ownersOf(pvc) {
			if owner.Name != name {
				names = append(names, owner.Name)
			}
		}
	}
	return requests(object.GetNamespace(), names...)
}

// requests returns requests for objects of one namespace.
func requests(namespace string, names ...string) []reconcile.Request {
	found := make([]reconcile.Request, 0, len(names))
	for _, name := range names {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}})
	}
	return found
}
