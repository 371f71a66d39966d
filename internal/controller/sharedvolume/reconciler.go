package sharedvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/fair"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

const (
	// workers is the number of concurrent reconciles.
	workers = 20
	// lag is how long the cache may take until it has a new object.
	lag = time.Second
	// mostSteps limits the number of plans in one reconcile.
	mostSteps = 12
)

// Reconciler creates and repairs the volumes and PVCs of SharedVolumes.
type Reconciler struct {
	// Client reads from the cache and writes to the cluster. Live reads from the cluster.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Owner  string
	// Others are the conflicting operators. While one of them runs, the Reconciler does nothing.
	Others Others
	// Policies is true if the cluster serves admission policies.
	Policies bool
	// Shares asks AWS about shares. It is nil if the operator can't ask AWS.
	Shares Shares
	Now    func() time.Time

	metrics *metrics
	pacer   *fair.Pacer
	// made has, for each SharedVolume, the times of the last creations, and of the last annotation that makes Kubernetes bind the PVC (see nudging).
	made   sync.Map
	writer *status.Writer
	// ignored has, for each ignored SharedVolume, the Deployment of the conflicting operator.
	ignored sync.Map
}

type made struct {
	owner client.ObjectKey
	what  what
}

// Reconcile executes plans for one SharedVolume until nothing is left to do, and reports the result.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	owner := &v1alpha1.SharedVolume{}
	there, err := get(ctx, r.Client, request.NamespacedName, owner)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !there {
		r.evict(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if wait := r.writer.Behind(owner); wait > 0 {
		// The cache lacks our last write. So the operator waits until the cache has that write, to repeat no write and no event.
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if running, reason, err := r.Others.running(ctx); err != nil || running != "" {
		r.ignore(owner, running, reason)
		return ctrl.Result{}, err
	}
	r.ignored.Delete(request.NamespacedName)
	before := owner.DeepCopy()
	step, found, err := r.converge(ctx, owner)
	switch {
	case errors.Is(err, errBehind) || apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return ctrl.Result{RequeueAfter: lag}, nil
	case errors.Is(err, errPostponed):
		return ctrl.Result{RequeueAfter: r.pacer.Postponed(request.NamespacedName, r.Now())}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The namespace is being deleted, and the namespace controller deletes the SharedVolume.
		return ctrl.Result{}, nil
	case err != nil && isTransient(err):
		return ctrl.Result{}, err
	case err != nil:
		step = refused(step, err)
	}
	if step.paced {
		step.retry = status.MinRequeue(step.retry, r.pacer.Failed(request.NamespacedName, step.reason, r.Now()))
	} else {
		r.pacer.Settled(request.NamespacedName)
	}
	return status.Requeue(step.retry, r.report(ctx, before, owner, found, step))
}

// evict drops the operator's state in memory about a deleted SharedVolume.
func (r *Reconciler) evict(key client.ObjectKey) {
	r.metrics.remove(key)
	r.pacer.Settled(key)
	r.made.Delete(made{key, createVolume})
	r.made.Delete(made{key, createPVC})
	r.made.Delete(made{key, nudgePVC})
	r.writer.Evict(key)
	r.ignored.Delete(key)
}

// ignore handles a SharedVolume that another operator manages: it writes a single event that says so.
func (r *Reconciler) ignore(owner *v1alpha1.SharedVolume, running, reason string) {
	if running == "" {
		return
	}
	if reason == "" {
		r.metrics.remove(client.ObjectKeyFromObject(owner))
		return
	}
	r.metrics.observe(owner)
	if last, _ := r.ignored.Swap(client.ObjectKeyFromObject(owner), running); last != running {
		r.Events.Eventf(owner, nil, corev1.EventTypeNormal, reason, "Reconcile", "ignored while Deployment %s runs, which also manages "+
			"SharedVolumes or their driver; uninstall the operator of that Deployment: then this operator manages the SharedVolume", running)
	}
}

// converge executes plans until nothing is left to do. If a plan fails, converge returns the plan with the error.
func (r *Reconciler) converge(ctx context.Context, owner *v1alpha1.SharedVolume) (step plan, found seen, err error) {
	if found, err = r.observe(ctx, r.Client, owner); err != nil {
		return step, found, err
	}
	admitted := false
	for range mostSteps {
		step = next(owner, found)
		if !admitted && costs(step) {
			if !r.pacer.May(client.ObjectKeyFromObject(owner), step.reason, step.do != nil, r.Now()) {
				return step, found, errPostponed
			}
			admitted = true
		}
		if ends, err := r.execute(ctx, owner, &found, step); ends || err != nil {
			return step, found, err
		}
	}
	return step, found, fmt.Errorf("SharedVolume %s/%s did not settle in %d steps, the last was %+v", owner.Namespace, owner.Name, mostSteps, step)
}

// execute executes one plan, which is a read or a write. It returns true if nothing is left to do until the next event.
func (r *Reconciler) execute(ctx context.Context, owner *v1alpha1.SharedVolume, found *seen, step plan) (ends bool, err error) {
	switch {
	case step.query != 0:
		return false, r.runQuery(ctx, owner, found, step)
	case step.do == nil:
		return true, nil
	case isRemembered(step.do) && !found.live && r.Now().Sub(r.madeAt(owner, step.do.what)) < lag:
		return false, errBehind
	default:
		return step.do.what == deletePVC, r.advance(ctx, owner, found, step.do)
	}
}

// advance makes one change. It observes again if the change makes the observed state stale.
func (r *Reconciler) advance(ctx context.Context, owner *v1alpha1.SharedVolume, found *seen, do *change) error {
	err := r.carryOut(ctx, owner, found, do)
	if apierrors.IsAlreadyExists(err) && !found.live {
		// The existing object has another owner, or has lost our label.
		err = r.readLive(ctx, owner, found)
	}
	if err == nil && do.what == restoreIDs {
		// The IDs decide whether the namespace may use the share, so the operator observes again.
		*found, err = r.observe(ctx, r.Client, owner)
	}
	return err
}

// costs reports whether a plan sends requests to the API server.
func costs(step plan) bool { return step.do != nil || step.query != 0 && step.query != queryShare }

// runQuery does the read that a plan requests.
func (r *Reconciler) runQuery(ctx context.Context, owner *v1alpha1.SharedVolume, found *seen, step plan) error {
	var err error
	switch step.query {
	case queryLive:
		err = r.readLive(ctx, owner, found)
	case queryUsers:
		found.users, err = r.holdersOf(ctx, owner)
	case queryShare:
		found.placement, found.askable = r.Shares.Locate(ctx, owner.Spec.FileSystemID, owner.Spec.AccessPointID), false
	case queryPods:
		found.outsideZone, err = r.usersOutside(ctx, owner, found.placement.Zone)
	}
	return err
}

// carryOut makes one change, and stores the response.
func (r *Reconciler) carryOut(ctx context.Context, owner *v1alpha1.SharedVolume, found *seen, do *change) error {
	if do.what == dropFinalizer && len(owner.Finalizers) > mostFinalizers {
		var err error
		if do, err = r.droppingLive(ctx, owner); err != nil {
			return err
		}
	}
	if err := r.stillOwned(ctx, owner, found.pvc, do); err != nil {
		return err
	}
	answer, err := r.send(ctx, do)
	if isRemembered(do) {
		// The operator records even a failed request, because the API server may have processed it.
		r.made.Store(made{client.ObjectKeyFromObject(owner), do.what}, r.Now())
		found.pvcMade = r.madeAt(owner, createPVC)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", do.what, do.object.GetName(), err)
	}
	r.recordChange(owner, do)
	if do.what == deleteVolume {
		found.drop(do.object.GetName())
		return nil
	}
	found.put(owner, answer)
	return nil
}

// send sends a change, and returns the object from the response.
func (r *Reconciler) send(ctx context.Context, do *change) (client.Object, error) {
	object, ok := do.object.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an API object", do.object)
	}
	//nolint:wrapcheck // The caller says what was changed.
	switch {
	case isCreation(do):
		return object, r.Client.Create(ctx, object, client.FieldOwner(r.Owner))
	case do.what == deletePVC || do.what == deleteVolume:
		return object, r.Client.Delete(ctx, object, apply.AsRead(object))
	default:
		return object, r.patch(ctx, object, do.fields)
	}
}

// Before a change gives a PVC access to the share, stillOwned checks with a live read that the SharedVolume still exists. If only a stale cache has
// the SharedVolume, the namespace may belong to another tenant by now. After a restore of etcd, the garbage collector would delete each PVC that the
// operator creates for such a SharedVolume.
func (r *Reconciler) stillOwned(ctx context.Context, owner *v1alpha1.SharedVolume, pvc *corev1.PersistentVolumeClaim, do *change) error {
	if gives := isCreation(do) || do.what == rejoinVolume || do.what == markVolume && do.fields["spec"] != nil; !gives {
		return nil
	}
	isNew, err := r.isNew(ctx, owner, pvc, do)
	if err != nil || isNew {
		return err
	}
	live := &v1alpha1.SharedVolume{}
	there, err := get(ctx, r.Live, client.ObjectKeyFromObject(owner), live)
	if err == nil && (!there || live.UID != owner.UID) {
		err = errBehind
	}
	return err
}

// isNew reports whether a change is the first creation for a new SharedVolume in an older namespace. Such a change needs no live read, because the
// watch of namespaces shows that the tenant is the same, even if the watch of SharedVolumes is stale. Both creation times come from the API server.
func (r *Reconciler) isNew(ctx context.Context, owner *v1alpha1.SharedVolume, pvc *corev1.PersistentVolumeClaim, do *change) (bool, error) {
	// The phase does not show whether the operator has served the SharedVolume, because the CRD has a default for the phase.
	served := owner.Status.ObservedGeneration != 0 || owner.Status.ClaimRef.Name != ""
	if !isCreation(do) || served || !r.madeAt(owner, do.what).IsZero() || pvc != nil && !isOwned(pvc, owner.UID) {
		return false, nil
	}
	namespace := namespaceMetadata()
	there, err := get(ctx, r.Client, client.ObjectKey{Name: owner.Namespace}, namespace, shared)
	return there && namespace.CreationTimestamp.Time.Before(owner.CreationTimestamp.Time), err
}

// droppingLive returns the same change as dropping. It reads the SharedVolume live, because the cache keeps only a few of many finalizers.
func (r *Reconciler) droppingLive(ctx context.Context, owner *v1alpha1.SharedVolume) (*change, error) {
	live := &v1alpha1.SharedVolume{}
	there, err := get(ctx, r.Live, client.ObjectKeyFromObject(owner), live)
	do := dropping(live)
	if err == nil && (!there || live.UID != owner.UID || do == nil) {
		err = errBehind
	}
	return do, err
}

func isCreation(do *change) bool { return do.what == createVolume || do.what == createPVC }

// isRemembered reports whether the operator must not repeat a change until the cache shows it.
func isRemembered(do *change) bool { return isCreation(do) || do.what == nudgePVC }

// patch changes fields of an object. The UID and the resource version of the object are preconditions.
func (r *Reconciler) patch(ctx context.Context, object client.Object, fields map[string]any) error {
	metadata := map[string]any{"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion()}
	if more, ok := fields["metadata"].(map[string]any); ok {
		maps.Copy(metadata, more)
	}
	change := map[string]any{"metadata": metadata}
	if spec, ok := fields["spec"]; ok {
		change["spec"] = spec
	}
	encoded, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	kind := types.MergePatchType
	if _, isPVC := object.(*corev1.PersistentVolumeClaim); isPVC {
		// The cache has only a part of ownerReferences. A strategic merge patch adds references, and keeps the references that the cache lacks.
		kind = types.StrategicMergePatchType
	}
	//nolint:wrapcheck // The caller says what was changed.
	return r.Client.Patch(ctx, object, client.RawPatch(kind, encoded), client.FieldOwner(r.Owner))
}

// isTransient reports whether the SharedVolume is not the cause of an error. In that case, a retry may succeed.
func isTransient(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnauthorized(err) || apierrors.IsAlreadyExists(err)
}

// refused returns the failed plan for a write that the API server refused.
func refused(step plan, err error) plan {
	outcome := failed("Refused", "%s", err)
	switch {
	case strings.Contains(err.Error(), "exceeded quota"):
		outcome = failed("QuotaExceeded", "%s: delete unused PVCs, or ask for a larger quota; the size of 1Gi is only nominal", err)
	case apierrors.IsForbidden(err):
		outcome = failed("Forbidden", "%s: ask a cluster administrator to allow this", err)
	}
	outcome.volume, outcome.bound, outcome.mountable, outcome.paced = step.volume, step.bound, step.mountable, true
	return *outcome
}
