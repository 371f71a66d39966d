package sharedvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

const (
	// workers is how many SharedVolumes are worked on at once.
	workers = 20
	// lag is how long the cache may take to show what was just made.
	lag = time.Second
)

// Reconciler brings SharedVolumes, their volumes and their claims together.
type Reconciler struct {
	// Client reads from the cache and writes to the cluster.
	Client client.Client
	// Owner is the field manager.
	Owner string
}

// Reconcile looks after one SharedVolume. One that is being deleted needs nothing: its claim goes with it.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	owner := &v1alpha1.SharedVolume{}
	err := r.Client.Get(ctx, request.NamespacedName, owner)
	if apierrors.IsNotFound(err) || (err == nil && owner.DeletionTimestamp != nil) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read SharedVolume %s: %w", request, err)
	}
	found, err := r.world(ctx, owner)
	if err != nil {
		return ctrl.Result{}, err
	}
	step := next(owner, found)
	err = r.carryOut(ctx, owner, step)
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		// The cache is behind.
		return ctrl.Result{RequeueAfter: lag}, nil
	}
	if err == nil && step.createVolume != nil {
		// The claim need not wait for the volume to come back through the cache.
		err = r.carryOut(ctx, owner, plan{createClaim: newClaim(owner, step.volume)})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
	}
	if err != nil {
		step = failed("Refused", "%s", err)
	}
	return ctrl.Result{}, errors.Join(err, r.report(ctx, owner, step))
}

// world reads what a plan depends on.
func (r *Reconciler) world(ctx context.Context, owner *v1alpha1.SharedVolume) (world, error) {
	var found world
	volumes := map[string]**corev1.PersistentVolume{
		volumeName(owner.Namespace, owner.Name):                         &found.usual,
		otherVolumeName(owner.Namespace, owner.Name, string(owner.UID)): &found.other,
	}
	for name, volume := range volumes {
		read := &corev1.PersistentVolume{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: name}, read)
		switch {
		case err == nil:
			*volume = read
		case !apierrors.IsNotFound(err):
			return found, fmt.Errorf("read PersistentVolume %s: %w", name, err)
		}
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: claimName(owner.Name)}, claim)
	switch {
	case err == nil:
		found.claim = claim
	case !apierrors.IsNotFound(err):
		return found, fmt.Errorf("read claim %s: %w", claimName(owner.Name), err)
	}
	return found, nil
}

// carryOut does the one step of a plan.
func (r *Reconciler) carryOut(ctx context.Context, owner *v1alpha1.SharedVolume, step plan) error {
	switch {
	case step.restore != nil:
		return r.patch(ctx, owner.DeepCopy(), map[string]any{
			"metadata": map[string]any{"uid": owner.UID, "resourceVersion": owner.ResourceVersion},
			"spec":     map[string]any{"fileSystemID": step.restore.fileSystem, "accessPointID": step.restore.accessPoint},
		})
	case step.createVolume != nil:
		return r.create(ctx, step.createVolume)
	case step.createClaim != nil:
		return r.create(ctx, step.createClaim)
	case step.rejoin != nil:
		return r.patch(ctx, step.rejoin.DeepCopy(), map[string]any{
			"metadata": map[string]any{"uid": step.rejoin.UID, "resourceVersion": step.rejoin.ResourceVersion},
			"spec":     map[string]any{"claimRef": map[string]any{"uid": nil, "resourceVersion": nil}},
		})
	default:
		return nil
	}
}

func (r *Reconciler) create(ctx context.Context, object client.Object) error {
	if err := r.Client.Create(ctx, object, client.FieldOwner(r.Owner)); err != nil {
		return fmt.Errorf("create %s: %w", object.GetName(), err)
	}
	return nil
}

func (r *Reconciler) patch(ctx context.Context, object client.Object, change map[string]any) error {
	encoded, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := r.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, encoded), client.FieldOwner(r.Owner)); err != nil {
		return fmt.Errorf("change %s: %w", object.GetName(), err)
	}
	return nil
}

// report writes the status if it is new. That a SharedVolume is pending without a reason to wait is the schema's default, and
// costs no write.
func (r *Reconciler) report(ctx context.Context, owner *v1alpha1.SharedVolume, step plan) error {
	if step.phase == v1alpha1.Pending && step.message == "" && owner.Status.ObservedGeneration == 0 {
		return nil
	}
	wanted := statusOf(owner, step)
	if reflect.DeepEqual(wanted, owner.Status) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&wanted)
	if err != nil {
		return fmt.Errorf("convert status: %w", err)
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	patch.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("SharedVolume"))
	patch.SetNamespace(owner.Namespace)
	patch.SetName(owner.Name)
	patch.SetUID(owner.UID)
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(r.Owner), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of SharedVolume %s/%s: %w", owner.Namespace, owner.Name, err)
	}
	return nil
}

// statusOf is the status that a plan leads to.
func statusOf(owner *v1alpha1.SharedVolume, step plan) v1alpha1.SharedVolumeStatus {
	wanted := *owner.Status.DeepCopy()
	wanted.Phase, wanted.Message, wanted.VolumeName = step.phase, step.message, step.volume
	wanted.ObservedGeneration = owner.Generation
	ready := metav1.ConditionFalse
	if step.phase == v1alpha1.Ready {
		group := ""
		ready, wanted.ClaimRef = metav1.ConditionTrue, v1alpha1.ClaimReference{
			APIGroup: &group, Kind: "PersistentVolumeClaim", Name: claimName(owner.Name),
		}
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionBound} {
		meta.SetStatusCondition(&wanted.Conditions, metav1.Condition{
			Type: kind, Status: ready, Reason: step.reason, Message: step.message, ObservedGeneration: owner.Generation,
		})
	}
	return wanted
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(manager).Named("sharedvolume").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&v1alpha1.SharedVolume{}).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(r.ofVolume)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.ofClaim)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller sharedvolume: %w", err)
	}
	return nil
}

// ofVolume finds the SharedVolume of a volume by the claim that the volume is for.
func (r *Reconciler) ofVolume(ctx context.Context, object client.Object) []reconcile.Request {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || volume.Spec.ClaimRef == nil || volume.Spec.CSI == nil || volume.Spec.CSI.Driver != DriverName {
		return nil
	}
	return r.of(ctx, volume.Spec.ClaimRef.Namespace, volume.Spec.ClaimRef.Name)
}

func (r *Reconciler) ofClaim(ctx context.Context, object client.Object) []reconcile.Request {
	return r.of(ctx, object.GetNamespace(), object.GetName())
}

// of finds the SharedVolume of a claim. Names that were cut do not tell it.
func (r *Reconciler) of(ctx context.Context, namespace, claim string) []reconcile.Request {
	name, found := strings.CutPrefix(claim, claimName(""))
	switch {
	case !found:
		return nil
	case len(claim) < longestName:
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
	}
	list := &v1alpha1.SharedVolumeList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list SharedVolumes", "namespace", namespace)
		return nil
	}
	for i := range list.Items {
		if claimName(list.Items[i].Name) == claim {
			return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}}
		}
	}
	return nil
}
