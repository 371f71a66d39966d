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

// Environment is the environment of the operator.
type Environment struct {
	// Namespace is the namespace of the operator and its operands.
	Namespace string
	// Kinds are the optional kinds that the cluster serves.
	Kinds map[schema.GroupKind]bool
	// Images, RoleARNs and Settings map environment variables to values.
	Images, RoleARNs, Settings map[string]string
	// FIPS is true if the nodes run in FIPS mode.
	FIPS bool
	// KubernetesMinor is the minor version of the API server, for instance 36.
	KubernetesMinor int
	// Version is the version that the operator reports once the operands are rolled out.
	Version string
}

// Process controls the operator's own process.
type Process struct {
	// SetLogLevel sets how much the operator itself logs.
	SetLogLevel func(operatorv1.LogLevel)
	// Restart logs why, and ends the process, so that Kubernetes starts it again. Only drivers with snapshots need Restart.
	Restart func(why string)

	watchdog status.Watchdog
}

// Reconciler installs one driver. Package cmd sets all fields except memory.
type Reconciler struct {
	// Client reads from the cache and writes to the cluster. Live reads from the cluster. The operator reads objects live before it deletes them,
	// because a cache can lag.
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
	// Taints removes the taint of nodes whose kubelet has registered the driver. It is nil in some tests.
	Taints *nodes.Taints
	// Mounted returns the nodes that have mounts of the driver, and the nodes for which the answer is unknown. The nodes in argument "before" must
	// report, too. If Mounted returns an error, the answer is unknown for all nodes that have not answered. Mounted is nil if nodes do not report.
	Mounted func(ctx context.Context, before []string) (nodes, unknown []string, err error)
	Events  events.EventRecorder
	Now     func() time.Time

	memory
}

// memory is the state between reconciles. The applier remembers our writes, and the reporter remembers its reports.
type memory struct {
	applier  *apply.Applier
	reporter *reporter
	// removedUID is the UID of the ClusterCSIDriver that the operator removed last.
	removedUID types.UID
	// yieldedTo identifies a ClusterCSIDriver and the older copy of this operator that manages it. It is empty if this operator has not yielded to
	// another copy.
	yieldedTo string
	inUse     inUse
	mounts    mounts
	rendered  rendered
}

// Reconcile makes the cluster match the ClusterCSIDriver. ARCHITECTURE.md calls one reconcile the trip. Without a ClusterCSIDriver, Reconcile changes
// nothing.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	defer r.Process.watchdog.Begin(r.Now())()
	r.applier.Mutations.EvictStale(r.Now())
	cr, err := r.read(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cr == nil {
		return ctrl.Result{}, r.idle(ctx)
	}
	older, err := r.Migration.OlderCopy(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("look for copies of this operator: %w", err)
	}
	if older != nil {
		// The deletion of the older copy triggers a reconcile.
		r.yieldTo(ctx, cr, older)
		return ctrl.Result{}, nil
	}
	r.yieldedTo = ""
	r.Process.SetLogLevel(cr.Spec.OperatorLogLevel)
	return r.finish(ctx, cr, r.act(ctx, cr))
}

// act installs, removes or inspects the driver. The management state decides what act does, unless NotWantedAnnotation makes the operator remove the
// driver.
func (r *Reconciler) act(ctx context.Context, cr *operatorv1.ClusterCSIDriver) outcome {
	seen, err := r.observeLive(ctx)
	if err != nil {
		return seen.outcome(err)
	}
	unwanted, err := r.notWanted(ctx, cr)
	switch {
	case err != nil:
		// While the platform is unknown, the operator removes nothing.
		return r.inspect(ctx, cr, seen).failed(err)
	case unwanted.stale:
		return outcome{unwanted: unwanted}
	}
	isRemoval := unwanted.remove || r.asksForRemoval(cr)
	if !isRemoval {
		// What a cancelled removal has learned is outdated when the next one begins.
		r.inUse, r.mounts = inUse{}, mounts{}
	}
	var result outcome
	switch state := cr.Spec.ManagementState; {
	case isRemoval:
		r.Nodes.Reset()
		result = r.remove(ctx, cr, seen)
	case cr.DeletionTimestamp == nil && (state == operatorv1.Managed || state == ""):
		result = r.install(ctx, cr, seen)
	default:
		// The driver is Unmanaged, has an unknown management state, or is a payload driver whose ClusterCSIDriver is being deleted. In these cases the
		// operator only reports.
		r.Nodes.Reset()
		r.Derived.Manage(false)
		result = r.inspect(ctx, cr, seen)
	}
	result.unwanted = unwanted
	return result
}

// asksForRemoval reports whether the ClusterCSIDriver requests the removal of the driver.
func (r *Reconciler) asksForRemoval(cr *operatorv1.ClusterCSIDriver) bool {
	if cr.Spec.ManagementState == operatorv1.Removed {
		return r.Driver.Removable || r.Driver.RemovedByState
	}
	return r.Driver.Removable && cr.DeletionTimestamp != nil
}

// install reconciles a managed driver.
func (r *Reconciler) install(ctx context.Context, cr *operatorv1.ClusterCSIDriver, seen seen) outcome {
	if err := r.addFinalizer(ctx, cr); err != nil {
		return r.inspect(ctx, cr, seen).failed(err)
	}
	// Pods wait until the taint is gone. So the operator removes the taint first, even if an error prevents the apply.
	again, failure := r.Taints.Remove(ctx)
	result := r.apply(ctx, cr, seen)
	result.again = status.MinRequeue(result.again, again)
	if failure != nil {
		return result.failed(failure)
	}
	return result
}

// apply is the main part of a reconcile. It observes the cluster, renders, applies and prunes objects, and then replaces node pods.
func (r *Reconciler) apply(ctx context.Context, cr *operatorv1.ClusterCSIDriver, seen seen) outcome {
	seen, err := r.observe(ctx, cr, seen)
	r.pollCloud(seen)
	r.Derived.Manage(seen.managesCloud)
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
	applied := r.set(ctx, seen, append(objects, r.Nodes.Objects()...))
	return r.advance(ctx, cr, seen, applied)
}

// pollCloud sets the inputs with which the poller queries the cloud. If the operator could not read the inputs, the previous inputs stay.
func (r *Reconciler) pollCloud(seen seen) {
	if seen.cloudInputs != nil {
		r.Derived.SetInputs(*seen.cloudInputs)
	}
}

// updateCR drops the finalizers of predecessors from the ClusterCSIDriver, and stores inherited settings in the ClusterCSIDriver. The operator must
// do this before it first applies objects.
func (r *Reconciler) updateCR(ctx context.Context, cr *operatorv1.ClusterCSIDriver, seen seen) error {
	if err := r.dropFinalizers(ctx, cr, r.Driver.IsLegacy); err != nil {
		return err
	}
	return r.keepInherited(ctx, cr, seen.migration.Inherited)
}

// set applies the objects that are due, after the Secret of Driver.Derived. Then it prunes objects that the operator no longer renders.
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

// applierOf returns an applier with the inventory of this reconcile, and with a function that says which workloads have pods.
func (r *Reconciler) applierOf(seen seen) *apply.Applier {
	one := *r.applier
	one.Inventory, one.KeepAlive = seen.inventory, seen.keepAlive
	one.HasPods = func(subject apply.Subject) bool {
		switch subject.Name {
		case r.Driver.Deployment:
			return seen.live.pods[driver.Controller]
		case r.Driver.DaemonSet:
			return seen.live.pods[driver.Node]
		default:
			// The cache has no pods of other workloads. So the applier must assume that such a workload has pods.
			return true
		}
	}
	return &one
}

// advance replaces node pods. In a migration, it replaces the predecessor's pods. Outside a migration, it replaces our outdated pods only for a
// driver whose mounts depend on the node pods. For all other drivers, Kubernetes' DaemonSet controller replaces outdated pods.
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

// kept lists objects that Prune must keep: the rendered objects, unmanaged StorageClasses, and Driver.StorageClass. Another client may have created
// Driver.StorageClass since observe.
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

// due returns the objects to apply now. It leaves out held workloads, unmanaged StorageClasses, and the Secret of Driver.Derived, which function set
// applies first.
func (r *Reconciler) due(objects []client.Object, cfg driver.Config, holds driver.Holds) []client.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(object client.Object) bool {
		_, isClass := object.(*storagev1.StorageClass)
		isTheirs := isClass && cfg.Spec.StorageClassState == operatorv1.UnmanagedStorageClass
		return holds[r.Driver.WorkloadOf(object)] != "" || r.Driver.IsDerived(object) || isTheirs
	})
}

// finish writes the status and returns when to reconcile again.
func (r *Reconciler) finish(ctx context.Context, cr *operatorv1.ClusterCSIDriver, result outcome) (ctrl.Result, error) {
	if result.seen.unread || result.unwanted.stale {
		// This reconcile read outdated or incomplete objects, so it writes no status. The change that it missed triggers another reconcile.
		return ctrl.Result{}, result.err
	}
	result.changes.Log(ctx)
	var again time.Duration
	var reportErr error
	if isDeleted := result.removal.removed && cr.DeletionTimestamp != nil && len(cr.Finalizers) == 0; isDeleted {
		// A lagging cache can still have the removed ClusterCSIDriver. By the UID, the next reconcile recognizes it.
		r.removedUID = cr.UID
		r.reporter.record(cr, corev1.EventTypeNormal, eventRemoved, "driver "+r.Driver.Name+" is removed")
	} else {
		again, reportErr = r.reporter.report(ctx, cr, result)
	}
	again = status.MinRequeue(again, result.again, result.seen.again, result.moved.Again, result.rolled.Again)
	if r.applier.Mutations.Pending() {
		again = status.MinRequeue(again, apply.StaleAfter)
	}
	// Terminating objects need no retry, because the status names them and their deletion triggers a reconcile.
	err := errors.Join(result.err, result.changes.With(apply.Failed).Err())
	if reportErr != nil {
		// Return only the report's error. A terminal error beside it would prevent the retry that writes the report again.
		err = reportErr
	}
	switch {
	case err == nil:
		return ctrl.Result{RequeueAfter: again}, nil
	case status.OnlyConflicts(err):
		// After a conflict the operator only retries, and logs no error.
		return ctrl.Result{RequeueAfter: status.MinRequeue(again, time.Second)}, nil
	case errors.Is(err, reconcile.TerminalError(nil)) && again != 0:
		// The queue does not retry a terminal error, but other work needs a requeue.
		ctrl.LoggerFrom(ctx).Error(err, "not retried until something changes")
		return ctrl.Result{RequeueAfter: again}, nil
	default:
		return ctrl.Result{}, fmt.Errorf("ClusterCSIDriver %s: %w", cr.Name, err)
	}
}

// idle reports that the ClusterCSIDriver is absent, and announces drivers that the operator could migrate.
func (r *Reconciler) idle(ctx context.Context) error {
	r.reset()
	r.reporter.metrics.absent()
	return r.Migration.Announce(ctx)
}

// reset drops all state of a ClusterCSIDriver, so that the next ClusterCSIDriver starts without old state.
func (r *Reconciler) reset() {
	r.Process.SetLogLevel("")
	r.Derived.SetInputs("")
	r.reporter.reset()
	r.Migration.Reset()
	r.Pending.Reset()
	r.Nodes.Reset()
	r.inUse, r.mounts = inUse{}, mounts{}
}

// Alive returns an error if a reconcile hangs, so that the liveness probe fails (status.Watchdog).
func (r *Reconciler) Alive(*http.Request) error {
	return r.Process.watchdog.Check(r.Driver.Name, r.Now())
}
