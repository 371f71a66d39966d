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
	// workers is how many SharedVolumes are worked on at once.
	workers = 20
	// lag is how long the cache may take to show what was just made.
	lag = time.Second
	// mostSteps bounds the writes for one look at a SharedVolume.
	mostSteps = 12
)

// Reconciler brings SharedVolumes, their volumes and their PVCs together.
type Reconciler struct {
	// Client reads from the cache and writes to the cluster. Live reads from the cluster.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	Owner  string
	// Others are the operators that it never works beside.
	Others Others
	// Policies reports whether the cluster has admission policies.
	Policies bool
	// Shares knows AWS; nil if nobody does.
	Shares Shares
	Now    func() time.Time

	metrics *metrics
	pacer   *fair.Pacer
	// made says when a volume or a PVC was last made for a SharedVolume, and when the PVC was told its volume.
	made   sync.Map
	writer *status.Writer
	// left says beside which Deployment a SharedVolume was left alone.
	left sync.Map
}

type made struct {
	owner client.ObjectKey
	what  what
}

// Reconcile looks after one SharedVolume.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	owner := &v1alpha1.SharedVolume{}
	there, err := get(ctx, r.Client, request.NamespacedName, owner)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !there {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if wait := r.writer.Behind(owner); wait > 0 {
		// Its event comes, and nothing is written and emitted twice.
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if running, reason, err := r.Others.running(ctx); err != nil || running != "" {
		r.leaveAlone(owner, running, reason)
		return ctrl.Result{}, err
	}
	r.left.Delete(request.NamespacedName)
	before := owner.DeepCopy()
	step, found, err := r.pursue(ctx, owner)
	switch {
	case errors.Is(err, errBehind) || apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return ctrl.Result{RequeueAfter: lag}, nil
	case errors.Is(err, errPostponed):
		return ctrl.Result{RequeueAfter: r.pacer.Postponed(request.NamespacedName, r.Now())}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The SharedVolume goes with its namespace.
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

// forget drops what is remembered of a SharedVolume that has gone.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.metrics.forget(key)
	r.pacer.Settled(key)
	r.made.Delete(made{key, createVolume})
	r.made.Delete(made{key, createPVC})
	r.made.Delete(made{key, nudgePVC})
	r.writer.Evict(key)
	r.left.Delete(key)
}

// leaveAlone only reports, once, that a SharedVolume is another operator's business as long as that runs.
func (r *Reconciler) leaveAlone(owner *v1alpha1.SharedVolume, running, reason string) {
	if running == "" {
		return
	}
	if reason == "" {
		r.metrics.forget(client.ObjectKeyFromObject(owner))
		return
	}
	r.metrics.observe(owner)
	if last, _ := r.left.Swap(client.ObjectKeyFromObject(owner), running); last != running {
		r.Events.Eventf(owner, nil, corev1.EventTypeNormal, reason, "Reconcile", "ignored while Deployment %s runs, which also manages "+
			"SharedVolumes or their driver; uninstall that operator, and this one manages the SharedVolume", running)
	}
}

// pursue takes one step after the other until there is nothing left to do. With an error, the plan is the one that failed.
func (r *Reconciler) pursue(ctx context.Context, owner *v1alpha1.SharedVolume) (step plan, found seen, err error) {
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
		if ends, err := r.take(ctx, owner, &found, step); ends || err != nil {
			return step, found, err
		}
	}
	return step, found, fmt.Errorf("SharedVolume %s/%s did not settle in %d steps, the last was %+v", owner.Namespace, owner.Name, mostSteps, step)
}

// take finds out what a plan needs to know, or makes its change. It ends where nothing is left to do before an event comes.
func (r *Reconciler) take(ctx context.Context, owner *v1alpha1.SharedVolume, found *seen, step plan) (ends bool, err error) {
	switch {
	case step.look != 0:
		return false, r.find(ctx, owner, found, step)
	case step.do == nil:
		return true, nil
	case isRemembered(step.do) && !found.live && r.Now().Sub(r.madeAt(owner, step.do.what)) < lag:
		return false, errBehind
	default:
		return step.do.what == deletePVC, r.advance(ctx, owner, found, step.do)
	}
}

// advance makes one change, and follows up on what comes of it.
func (r *Reconciler) advance(ctx context.Context, owner *v1alpha1.SharedVolume, found *seen, do *change) error {
	err := r.carryOut(ctx, owner, found, do)
	if apierrors.IsAlreadyExists(err) && !found.live {
		// It is somebody else's, or it has lost our label.
		err = r.readLive(ctx, owner, found)
	}
	if err == nil && do.what == restoreIDs {
		// What the namespace may use depends on the IDs.
		*found, err = r.observe(ctx, r.Client, owner)
	}
	return err
}

// costs reports whether a plan needs requests beyond the status.
func costs(step plan) bool { return step.do != nil || step.look != 0 && step.look != lookShare }

// find looks for what a plan needs to know.
func (r *Reconciler) find(ctx context.Context, owner *v1alpha1.SharedVolume, found *seen, step plan) error {
	var err error
	switch step.look {
	case lookLive:
		err = r.readLive(ctx, owner, found)
	case lookUsers:
		found.users, err = r.holdersOf(ctx, owner)
	case lookShare:
		found.placement, found.askable = r.Shares.Look(ctx, owner.Spec.FileSystemID, owner.Spec.AccessPointID), false
	case lookPods:
		found.outsideZone, err = r.usersOutside(ctx, owner, found.placement.Zone)
	}
	return err
}

// carryOut makes one change, and brings the answer into what was found.
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
		// A request that fails may have been carried out.
		r.made.Store(made{client.ObjectKeyFromObject(owner), do.what}, r.Now())
		found.pvcMade = r.madeAt(owner, createPVC)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", do.what, do.object.GetName(), err)
	}
	r.tellChange(owner, do)
	if do.what == deleteVolume {
		found.drop(do.object.GetName())
		return nil
	}
	found.put(owner, answer)
	return nil
}

// send sends a change, and returns the object as the API server has it now.
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

// stillOwned refuses to give a share to a PVC for a SharedVolume that only the cache still has: another tenant may have its namespace by now. After a
// restore of etcd, the cluster deletes such a PVC as often as the operator creates it.
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

// isNew reports whether a change makes something for the first time for a SharedVolume that was never served, in a namespace that is older. Such a
// SharedVolume is no other tenant's, even if its watch fails: the watch of namespaces is another one. Both times are the API server's.
func (r *Reconciler) isNew(ctx context.Context, owner *v1alpha1.SharedVolume, pvc *corev1.PersistentVolumeClaim, do *change) (bool, error) {
	// The CRD gives it a phase as soon as it is read.
	served := owner.Status.ObservedGeneration != 0 || owner.Status.ClaimRef.Name != ""
	if !isCreation(do) || served || !r.madeAt(owner, do.what).IsZero() || pvc != nil && !isOwned(pvc, owner.UID) {
		return false, nil
	}
	namespace := namespaceMetadata()
	there, err := get(ctx, r.Client, client.ObjectKey{Name: owner.Namespace}, namespace, shared)
	return there && namespace.CreationTimestamp.Time.Before(owner.CreationTimestamp.Time), err
}

// droppingLive is dropping for a SharedVolume of whose many finalizers the cache has but a few.
func (r *Reconciler) droppingLive(ctx context.Context, owner *v1alpha1.SharedVolume) (*change, error) {
	live := &v1alpha1.SharedVolume{}
	there, err := get(ctx, r.Live, client.ObjectKeyFromObject(owner), live)
	do := dropping(live)
	if err == nil && (!there || live.UID != owner.UID || do == nil) {
		err = errBehind
	}
	return do, err
}

// isCreation reports whether a change makes a new object.
func isCreation(do *change) bool { return do.what == createVolume || do.what == createPVC }

// isRemembered reports whether a change is not repeated before the cache shows it.
func isRemembered(do *change) bool { return isCreation(do) || do.what == nudgePVC }

// patch changes some fields of an object as it was read.
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
		// It adds to a list, of which the cache has but a part.
		kind = types.StrategicMergePatchType
	}
	//nolint:wrapcheck // The caller says what was changed.
	return r.Client.Patch(ctx, object, client.RawPatch(kind, encoded), client.FieldOwner(r.Owner))
}

// isTransient reports whether an error says nothing about the SharedVolume, and goes without anybody's help.
func isTransient(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnauthorized(err) || apierrors.IsAlreadyExists(err)
}

// refused says why the API server does not take what a plan wants to write.
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
