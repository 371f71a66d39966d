package standin

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
)

// registrationPath is the flag of node-driver-registrar that names the driver's socket for the kubelet. The folder of the socket has the name of
// the driver (node-driver-registrar v2.15.0, cmd/csi-node-driver-registrar/main.go; CSI drivers, "Communication with the kubelet").
const registrationPath = "--kubelet-registration-path="

// registration replaces what a kubelet does to register CSI drivers. Each node has a CSINode, which lists the drivers that have a ready pod on
// the node (Kubernetes v1.36, pkg/volume/csi/nodeinfomanager/nodeinfomanager.go, InstallCSIDriver and UninstallCSIDriver). The stand-in serves
// only fake nodes. It keeps entries that another program has written into a CSINode.
type registration struct {
	client client.Client
	// live reads CSINodes from the API server. A cached CSINode could still have a driver that was just removed. No later event would correct this,
	// because this controller does not watch CSINodes.
	live client.Reader
}

func (s *registration) setup(manager ctrl.Manager) error {
	isPlugin := predicate.NewPredicateFuncs(func(object client.Object) bool {
		pod, isPod := object.(*corev1.Pod)
		return isPod && driverOf(pod) != "" && pod.Spec.NodeName != ""
	})
	// Most updates of a pod change neither its node nor its readiness.
	matters := predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, after := update.ObjectOld.(*corev1.Pod), update.ObjectNew.(*corev1.Pod)
		return before.Spec.NodeName != after.Spec.NodeName || isReady(before) != isReady(after)
	}}
	toNode := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: object.(*corev1.Pod).Spec.NodeName}}}
	})
	isNew := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	return ctrl.NewControllerManagedBy(manager).
		Named("registration").
		For(&corev1.Node{}, builder.WithPredicates(isNew)).
		Watches(&corev1.Pod{}, toNode, builder.WithPredicates(isPlugin, matters)).
		Complete(s)
}

// Reconcile registers the drivers of one node.
func (s *registration) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := s.client.Get(ctx, request.NamespacedName, node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, real := node.Labels[openshift.RealLabel]; real {
		// This node has a kubelet, which registers the drivers itself.
		return ctrl.Result{}, nil
	}
	pods := &corev1.PodList{}
	if err := s.client.List(ctx, pods); err != nil {
		return ctrl.Result{}, fmt.Errorf("list pods: %w", err)
	}
	ready := map[string]bool{}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName == node.Name && driverOf(pod) != "" {
			ready[driverOf(pod)] = ready[driverOf(pod)] || isReady(pod)
		}
	}
	have := &storagev1.CSINode{}
	err := s.live.Get(ctx, request.NamespacedName, have)
	if apierrors.IsNotFound(err) {
		have = &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		}}
		err = s.client.Create(ctx, have)
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("CSINode %s: %w", node.Name, err)
	}
	return ctrl.Result{}, s.register(ctx, have, ready)
}

// register adds the drivers that have a ready pod, and removes the drivers whose pods are not ready. It does not change drivers that have no pod.
func (s *registration) register(ctx context.Context, have *storagev1.CSINode, ready map[string]bool) error {
	wanted := have.DeepCopy()
	wanted.Spec.Drivers = slices.DeleteFunc(wanted.Spec.Drivers, func(driver storagev1.CSINodeDriver) bool {
		isReady, known := ready[driver.Name]
		return known && !isReady
	})
	for _, driver := range slices.Sorted(maps.Keys(ready)) {
		if ready[driver] && !slices.ContainsFunc(wanted.Spec.Drivers, func(other storagev1.CSINodeDriver) bool { return other.Name == driver }) {
			wanted.Spec.Drivers = append(wanted.Spec.Drivers, storagev1.CSINodeDriver{Name: driver, NodeID: have.Name})
		}
	}
	if equality.Semantic.DeepEqual(wanted.Spec.Drivers, have.Spec.Drivers) {
		return nil
	}
	if err := s.client.Patch(ctx, wanted, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("register drivers in CSINode %s: %w", have.Name, err))
	}
	return nil
}

// driverOf returns the name of the driver that a pod registers. If the pod registers none, the result is empty.
func driverOf(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		for _, argument := range container.Args {
			if socket, found := strings.CutPrefix(argument, registrationPath); found {
				return path.Base(path.Dir(socket))
			}
		}
	}
	return ""
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}
