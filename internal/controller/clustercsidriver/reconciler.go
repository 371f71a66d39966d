package clustercsidriver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/pendingpvc"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// Environment is what the operator is started with, and where.
type Environment struct {
	// Namespace is where the operator runs and its operands go.
	Namespace string
	// Kinds are the optional kinds that the cluster serves.
	Kinds map[schema.GroupKind]bool
	// Images, RoleARNs and Settings come from the environment, by the names of the variables.
	Images, RoleARNs, Settings map[string]string
	// FIPS means that the nodes run in FIPS mode.
	FIPS bool
	// KubernetesMinor is the minor version of the API server. Only drivers with feature gates need it.
	KubernetesMinor int
	// Version is reported once the operands are rolled out.
	Version string
}

// Process is what a ClusterCSIDriver decides about the operator itself.
type Process struct {
	// SetLogLevel sets how much the operator itself logs.
	SetLogLevel func(operatorv1.LogLevel)
	// Restart ends the operator, to be started anew, and says why. Only drivers that make snapshots need it.
	Restart func(why string)

	watchdog status.Watchdog
}

// Reconciler installs one driver. All fields but memory are set by cmd.
type Reconciler struct {
	// Client reads from the cache and writes to the cluster. Live reads from the cluster what is about to be removed: a cache may lag.
	Client client.Client
	Live   client.Reader
	Driver driver.Driver
	Environment
	Credentials *credential.Source
	Derived     *derived.Source
	Process     Process
	Migration   *migration.Migration
	Pending     *pendingpvc.PVCs
	Nodes       *nodes.Updater
	Events      events.EventRecorder
	Now         func() time.Time

	memory
}

// memory is what is known from one reconcile to the next. The applier remembers our own writes, the reporter what it has said.
type memory struct {
	applier  *apply.Applier
	reporter *reporter
	// gone is the ClusterCSIDriver that was removed last.
	gone types.UID
	// leftTo is the ClusterCSIDriver, and the copy of this operator to which it was left.
	leftTo   string
	inUse    inUse
	rendered rendered
}

// Reconcile brings the cluster to what the ClusterCSIDriver says. Without one it does nothing.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	defer r.Process.watchdog.Begin(r.Now())()
	r.applier.Mutations.ForgetStale(r.Now())
	cr, err := r.read(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cr == nil || cr.UID == r.gone {
		r.forget()
		r.reporter.metrics.absent()
		return ctrl.Result{}, r.Migration.Announce(ctx)
	}
	older, err := r.Migration.OlderCopy(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("look for copies of this operator: %w", err)
	}
	if older != nil {
		// Its end wakes this one.
		r.leaveTo(ctx, cr, older)
		return ctrl.Result{}, nil
	}
	r.leftTo = ""
	r.Process.SetLogLevel(cr.Spec.OperatorLogLevel)
	live, err := r.readLive(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	result := r.follow(ctx, cr, live)
	if result.unwanted.stale {
		return ctrl.Result{}, nil
	}
	return r.finish(ctx, cr, result)
}

// follow does what the management state asks for.
func (r *Reconciler) follow(ctx context.Context, cr *operatorv1.ClusterCSIDriver, live live) outcome {
	unwanted, err := r.notWanted(ctx, cr)
	switch {
	case err != nil:
		// What is not known removes nothing.
		result := r.look(ctx, cr, live)
		result.err = errors.Join(err, result.err)
		return result
	case unwanted.stale:
		return outcome{unwanted: unwanted}
	}
	var result outcome
	switch state := cr.Spec.ManagementState; {
	case unwanted.remove, r.asksForRemoval(cr):
		r.Nodes.Forget()
		result = r.remove(ctx, cr, live)
	case cr.DeletionTimestamp == nil && (state == operatorv1.Managed || state == ""):
		result = r.install(ctx, cr, live)
	default:
		r.Nodes.Forget()
		r.Derived.Manage(false)
		// Unmanaged, states that this operator does not know, and the end of a ClusterCSIDriver whose driver is part of
		// the cluster: nothing is touched, the status says what runs.
		result = r.look(ctx, cr, live)
	}
	result.unwanted = unwanted
	return result
}

// asksForRemoval tells whether the ClusterCSIDriver wants the driver to be gone.
func (r *Reconciler) asksForRemoval(cr *operatorv1.ClusterCSIDriver) bool {
	if cr.Spec.ManagementState == operatorv1.Removed {
		return r.Driver.Removable || r.Driver.RemovedByState
	}
	return r.Driver.Removable && cr.DeletionTimestamp != nil
}

// install is the trip for a driver that is managed.
func (r *Reconciler) install(ctx context.Context, cr *operatorv1.ClusterCSIDriver, live live) outcome {
	if err := r.addFinalizer(ctx, cr); err != nil {
		return outcome{seen: seen{live: live}, err: err}
	}
	state := cr.Spec.StorageClassState
	// What is made in a cloud is for the StorageClass.
	r.Derived.Manage(state == operatorv1.ManagedStorageClass || state == "")
	return r.apply(ctx, cr, live)
}

// apply is the trip: read, render, set and prune, migrate; the outcome is reported by finish.
func (r *Reconciler) apply(ctx context.Context, cr *operatorv1.ClusterCSIDriver, live live) outcome {
	seen, err := r.observe(ctx, cr, live)
	if err != nil || seen.migration.Blocked() || seen.disabled.Reason != "" || seen.undecided {
		return seen.outcome(err)
	}
	if err := r.updateCR(ctx, cr, seen); err != nil {
		return seen.outcome(err)
	}
	objects, err := r.rendered.render(r.Driver, r.Client.Scheme(), seen.config)
	if err != nil {
		return seen.outcome(err)
	}
	result := outcome{seen: seen}
	r.set(ctx, &result, objects)
	r.advance(ctx, cr, &result)
	return result
}

// advance goes on with node pods: those of a predecessor first, and ours after a change, for drivers whose mounts go through them. A migration
// replaces both.
func (r *Reconciler) advance(ctx context.Context, cr *operatorv1.ClusterCSIDriver, result *outcome) {
	live, holds, state, changes := &result.seen.live, result.holds(), result.seen.migration, result.changes
	if result.err = r.readWorkloads(ctx, live); result.err != nil {
		return
	}
	var err, failure error
	result.moved, err = r.Migration.Advance(ctx, state, changes, holds, live.daemonSet)
	if r.Driver.MountsInPods && len(state.Old) == 0 {
		result.rolled, failure = r.Nodes.Advance(ctx, nodes.Input{
			DaemonSet: live.daemonSet, Policy: result.seen.config.Rollout, ReplaceNow: cr.Annotations[nodes.ReplaceNowAnnotation],
			Lacks: nodes.Lacking(changes, holds[driver.Node], live.daemonSet), Withdrawn: live.credentials.Withdrawn(r.Driver),
		})
	}
	result.changes = slices.Concat(changes, result.moved.Changes, result.rolled.Changes)
	result.err = errors.Join(err, failure)
}

// updateCR writes on the ClusterCSIDriver what has to be there before anything is applied.
func (r *Reconciler) updateCR(ctx context.Context, cr *operatorv1.ClusterCSIDriver, seen seen) error {
	if err := r.dropFinalizers(ctx, cr, r.Driver.IsLegacy); err != nil {
		return err
	}
	return r.keepInherited(ctx, cr, seen.migration.Inherited)
}

// set applies what is due, and prunes what is not rendered any more.
func (r *Reconciler) set(ctx context.Context, result *outcome, objects []client.Object) {
	cfg := result.seen.config
	// Nothing may be mounted while there is none, which matters while pods of two operators come and go.
	r.applier.KeepAlive = map[schema.GroupKind]bool{{Group: storagev1.GroupName, Kind: "CSIDriver"}: cfg.Migrating}
	result.changes, result.unapplied = r.setDerived(ctx, result.seen)
	result.changes = append(result.changes, r.applier.Set(ctx, r.due(objects, cfg, result.holds()))...)
	result.changes = append(result.changes, r.applier.Prune(ctx, r.kept(objects, cfg))...)
}

// kept is what is not pruned: what is rendered, StorageClasses that the user looks after, and the StorageClass that only stays where it is. It
// may have come since the cluster was observed.
func (r *Reconciler) kept(objects []client.Object, cfg driver.Config) []client.Object {
	if r.Driver.CloudClasses != nil && cfg.Spec.StorageClassState == operatorv1.UnmanagedStorageClass {
		objects = slices.Clone(objects)
		for _, name := range r.Driver.Made(cfg.Classes) {
			objects = append(objects, classNamed(name))
		}
	}
	if r.Driver.StorageClass == "" || cfg.Spec.StorageClassState == operatorv1.RemovedStorageClass {
		return objects
	}
	return append(slices.Clone(objects), classNamed(r.Driver.StorageClass))
}

func classNamed(name string) *storagev1.StorageClass {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("StorageClass"))
	return class
}

// due leaves out what is not applied for the moment: a workload that is held, a StorageClass that the user looks after, and what setDerived has
// applied.
func (r *Reconciler) due(objects []client.Object, cfg driver.Config, holds driver.Holds) []client.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(object client.Object) bool {
		_, isClass := object.(*storagev1.StorageClass)
		isTheirs := isClass && cfg.Spec.StorageClassState == operatorv1.UnmanagedStorageClass
		return holds[r.Driver.WorkloadOf(object)] != "" || r.Driver.IsDerived(object) || isTheirs
	})
}

// finish writes the status and tells the queue what comes next.
func (r *Reconciler) finish(ctx context.Context, cr *operatorv1.ClusterCSIDriver, result outcome) (ctrl.Result, error) {
	result.changes.Log(ctx)
	var again time.Duration
	var reportErr error
	if gone := result.removal.removed && cr.DeletionTimestamp != nil && len(cr.Finalizers) == 0; gone {
		// The cache may go on to show it for a moment.
		r.gone = cr.UID
		r.reporter.say(cr, corev1.EventTypeNormal, eventRemoved, "driver "+r.Driver.Name+" is removed")
	} else {
		again, reportErr = r.reporter.report(ctx, cr, result)
	}
	again = status.MinRequeue(again, result.again, result.seen.again, result.moved.Again, result.rolled.Again)
	if r.applier.Mutations.Pending() {
		again = status.MinRequeue(again, apply.StaleAfter)
	}
	// What is Terminating is in the status; its end wakes the controller up, so that there is nothing to retry.
	err := errors.Join(result.err, result.changes.With(apply.Failed).Err())
	if reportErr != nil {
		// What could not be reported is found again by the retry; a terminal error must not prevent that.
		err = reportErr
	}
	switch {
	case err == nil:
		return ctrl.Result{RequeueAfter: again}, nil
	case status.OnlyConflicts(err):
		// Somebody else wrote at the same moment: not worth an error in the log.
		return ctrl.Result{RequeueAfter: status.MinRequeue(again, time.Second)}, nil
	case errors.Is(err, reconcile.TerminalError(nil)) && again != 0:
		// The queue does not retry a terminal error, but there is something else to look at.
		ctrl.LoggerFrom(ctx).Error(err, "not retried before something changes")
		return ctrl.Result{RequeueAfter: again}, nil
	default:
		return ctrl.Result{}, fmt.Errorf("ClusterCSIDriver %s: %w", cr.Name, err)
	}
}

// forget is what is left to do without a ClusterCSIDriver: its life leaves nothing to the next one.
func (r *Reconciler) forget() {
	r.Process.SetLogLevel("")
	r.Derived.Forget()
	r.reporter.forget()
	r.Migration.Forget()
	r.Pending.Forget()
	r.Nodes.Forget()
	r.inUse = inUse{}
}

// Alive is a check for the liveness probe.
func (r *Reconciler) Alive(*http.Request) error {
	return r.Process.watchdog.Check(r.Driver.Name, r.Now())
}
