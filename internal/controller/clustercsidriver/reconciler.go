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

// Reconcile is the trip: it brings the cluster to what the ClusterCSIDriver says. Without one it does nothing.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	defer r.Process.watchdog.Begin(r.Now())()
	r.applier.Mutations.ForgetStale(r.Now())
	cr, err := r.read(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cr == nil {
		return ctrl.Result{}, r.rest(ctx)
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
	return r.finish(ctx, cr, r.act(ctx, cr))
}

// act does what the management state asks for: install, remove, or look.
func (r *Reconciler) act(ctx context.Context, cr *operatorv1.ClusterCSIDriver) outcome {
	unwanted, err := r.notWanted(ctx, cr)
	switch {
	case err != nil:
		// What is not known removes nothing.
		return r.look(ctx, cr).failed(err)
	case unwanted.stale:
		return outcome{unwanted: unwanted}
	}
	var result outcome
	switch state := cr.Spec.ManagementState; {
	case unwanted.remove, r.asksForRemoval(cr):
		r.Nodes.Forget()
		result = r.remove(ctx, cr)
	case cr.DeletionTimestamp == nil && (state == operatorv1.Managed || state == ""):
		result = r.install(ctx, cr)
	default:
		// Unmanaged, states that this operator does not know, and the end of a ClusterCSIDriver whose driver is part of
		// the cluster: nothing is touched, the status says what runs.
		r.Nodes.Forget()
		r.Derived.Manage(false)
		result = r.look(ctx, cr)
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

// install keeps up a driver that is managed.
func (r *Reconciler) install(ctx context.Context, cr *operatorv1.ClusterCSIDriver) outcome {
	if err := r.addFinalizer(ctx, cr); err != nil {
		return r.look(ctx, cr).failed(err)
	}
	return r.apply(ctx, cr)
}

// apply is the main part of the trip: observe, render, set and prune, advance. Reconcile has read the ClusterCSIDriver, and finish reports.
func (r *Reconciler) apply(ctx context.Context, cr *operatorv1.ClusterCSIDriver) outcome {
	seen, err := r.observe(ctx, cr)
	r.followCloud(seen)
	if !seen.unread {
		r.Derived.Manage(seen.managesCloud)
	}
	if err != nil || seen.blocked() {
		return seen.outcome(err)
	}
	if err := r.updateCR(ctx, cr, seen); err != nil {
		return seen.outcome(err)
	}
	objects, err := r.rendered.render(r.Driver, r.Client.Scheme(), seen.config)
	if err != nil {
		return seen.outcome(err)
	}
	applied := r.set(ctx, seen, objects)
	return r.advance(ctx, cr, seen, applied)
}

// followCloud steers what asks the cloud outside of the trip.
func (r *Reconciler) followCloud(seen seen) {
	if seen.cloudInputs != nil {
		r.Derived.Follow(*seen.cloudInputs)
	}
}

// updateCR writes on the ClusterCSIDriver what has to be there before anything is applied.
func (r *Reconciler) updateCR(ctx context.Context, cr *operatorv1.ClusterCSIDriver, seen seen) error {
	if err := r.dropFinalizers(ctx, cr, r.Driver.IsLegacy); err != nil {
		return err
	}
	return r.keepInherited(ctx, cr, seen.migration.Inherited)
}

// set applies what is due, the Secret of Driver.Derived first, and prunes what is not rendered any more.
func (r *Reconciler) set(ctx context.Context, seen seen, objects []client.Object) applied {
	applier, done := r.applierOf(seen), applied{}
	if object := seen.derived.Object; object != nil {
		done.changes = applier.Set(ctx, []client.Object{object})
	}
	done.holds = r.withUnapplied(seen.holds, done.changes)
	done.changes = append(done.changes, applier.Set(ctx, r.due(objects, seen.config, done.holds))...)
	done.changes = append(done.changes, applier.Prune(ctx, r.kept(objects, seen.config))...)
	done.deployment, done.daemonSet, done.err = r.workloads(ctx)
	return done
}

// applierOf is the applier for what was seen.
func (r *Reconciler) applierOf(seen seen) *apply.Applier {
	one := *r.applier
	one.Inventory, one.KeepAlive = seen.inventory, seen.keepAlive
	return &one
}

// advance goes on with node pods: those of a predecessor first, and ours after a change, for drivers whose mounts go through them. A migration
// replaces both.
func (r *Reconciler) advance(ctx context.Context, cr *operatorv1.ClusterCSIDriver, seen seen, applied applied) outcome {
	result := outcome{seen: seen, applied: applied, changes: applied.changes, err: applied.err}
	if result.err != nil {
		return result
	}
	live, holds, state := result.live(), result.holds(), seen.migration
	var err, failure error
	result.moved, err = r.Migration.Advance(ctx, state, applied.changes, holds, live.daemonSet)
	if r.Driver.MountsInPods && len(state.Old) == 0 {
		result.rolled, failure = r.Nodes.Advance(ctx, nodes.Input{
			DaemonSet: live.daemonSet, Policy: seen.config.Rollout, ReplaceNow: cr.Annotations[nodes.ReplaceNowAnnotation],
			Lacks: nodes.Lacking(applied.changes, holds[driver.Node], live.daemonSet), Withdrawn: live.credentials.Withdrawn(r.Driver),
		})
	}
	result.changes = slices.Concat(applied.changes, result.moved.Changes, result.rolled.Changes)
	result.err = errors.Join(err, failure)
	return result
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

// due leaves out what is not applied for the moment: a workload that is held, a StorageClass that the user looks after, and the Secret of
// Driver.Derived, which set applies first.
func (r *Reconciler) due(objects []client.Object, cfg driver.Config, holds driver.Holds) []client.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(object client.Object) bool {
		_, isClass := object.(*storagev1.StorageClass)
		isTheirs := isClass && cfg.Spec.StorageClassState == operatorv1.UnmanagedStorageClass
		return holds[r.Driver.WorkloadOf(object)] != "" || r.Driver.IsDerived(object) || isTheirs
	})
}

// finish writes the status and tells the queue what comes next.
func (r *Reconciler) finish(ctx context.Context, cr *operatorv1.ClusterCSIDriver, result outcome) (ctrl.Result, error) {
	if result.seen.unread || result.unwanted.stale {
		// There is nothing to report; the event of the newest ClusterCSIDriver comes.
		return ctrl.Result{}, result.err
	}
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

// rest is the trip without a ClusterCSIDriver.
func (r *Reconciler) rest(ctx context.Context) error {
	r.forget()
	r.reporter.metrics.absent()
	return r.Migration.Announce(ctx)
}

// forget is what is left to do without a ClusterCSIDriver: its life leaves nothing to the next one.
func (r *Reconciler) forget() {
	r.Process.SetLogLevel("")
	r.Derived.Follow("")
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
