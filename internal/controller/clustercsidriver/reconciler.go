// Package clustercsidriver is the main trip: a ClusterCSIDriver becomes an installed CSI driver.
//
//	1 Reconcile    management state, deletion, finalizer
//	2 config       everything that rendering depends on, read from the cache
//	3 Render       pure, package driver
//	4 apply        server-side apply, prune
//	5 report       conditions, one status write and only if something changed
package clustercsidriver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/nodes"
	"github.com/csi-operators/csi-operators/internal/status"
)

// Reconciler installs one driver. All fields but the unexported ones are set by cmd.
type Reconciler struct {
	// Client reads from the cache and writes to the cluster. Live reads from the cluster what no cache has, such as what predecessors have
	// left, and what is about to be removed or taken over: a cache may lag.
	Client client.Client
	Live   client.Reader
	Driver driver.Driver
	// Namespace is where the operator runs and its operands go.
	Namespace string
	// Secrets read the Secrets of Driver.Credentials, by name, from caches that hold hashes (HashSecret).
	Secrets map[string]cache.Cache
	// Events is where events on the ClusterCSIDriver go.
	Events events.EventRecorder
	// Images, RoleARNs and Settings come from the environment, by the names of the variables.
	Images, RoleARNs, Settings map[string]string
	// Inheritable are the Settings that the environment leaves open, and that a predecessor may have decided.
	Inheritable []driver.Setting
	// FIPS means that the nodes run in FIPS mode.
	FIPS bool
	// KubernetesMinor is the minor version of the API server. Only drivers with feature gates need it.
	KubernetesMinor int
	// SetLogLevel sets how much the operator itself logs.
	SetLogLevel func(operatorv1.LogLevel)
	// Version is reported once the operands are rolled out.
	Version string
	// Predecessors are the operators of Driver.Predecessors.
	Predecessors []*Predecessor
	// Kinds are the optional kinds that the cluster serves.
	Kinds map[schema.GroupKind]bool
	// Restart ends the operator, to be started anew, and says why. Only drivers that make snapshots need it.
	Restart func(why string)
	// Now is the clock.
	Now func() time.Time

	applier  *apply.Applier
	failures *status.Failures
	rollouts *status.Rollouts
	metrics  *metrics
	reporter *reporter
	replacer *nodes.Replacer
	inUse    inUse
	// gone is the ClusterCSIDriver that was removed last.
	gone types.UID
	// surveyed is when the node pods were looked at last in a take-over, and lastTakeover what came of it.
	surveyed     time.Time
	lastTakeover takeover
	// patience says how soon to look again for what nothing is watched for.
	patience patience
	// elsewhere is what predecessors have left in namespaces of their own.
	elsewhere elsewhere
	// bindingsCleared means that no ClusterRoleBinding of a predecessor is left that ours take the place of.
	bindingsCleared bool
	// told are the DaemonSets of predecessors that an event has told about.
	told map[types.UID]bool
	// leftTo is the ClusterCSIDriver, and the copy of this operator that was told to look after it.
	leftTo   string
	busy     status.Busy
	rendered rendered
}

// Reconcile brings the cluster to what the ClusterCSIDriver says. Without one it does nothing.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	defer r.busy.Begin(r.Now())()
	r.applier.Written.ForgetStale(r.Now())
	cr, err := r.read(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cr == nil || cr.UID == r.gone {
		r.forget()
		return ctrl.Result{}, r.tellOld(ctx)
	}
	older, err := r.olderCopy(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("look for copies of this operator: %w", err)
	}
	if older != nil {
		// Its end wakes this one.
		r.leaveTo(ctx, cr, older)
		return ctrl.Result{}, nil
	}
	r.leftTo = ""
	r.SetLogLevel(cr.Spec.OperatorLogLevel)
	result, err := r.follow(ctx, cr)
	if err != nil {
		// What is not known removes nothing.
		result = r.observe(ctx, cr)
		result.err = errors.Join(err, result.err)
	}
	return r.finish(ctx, cr, result)
}

// follow does what the management state asks for.
func (r *Reconciler) follow(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (result outcome, err error) {
	unwanted, err := r.notWanted(ctx, cr)
	if err != nil {
		return outcome{}, err
	}
	switch state := cr.Spec.ManagementState; {
	case unwanted.remove, r.Driver.Removable && (cr.DeletionTimestamp != nil || state == operatorv1.Removed):
		result = r.remove(ctx, cr)
	case cr.DeletionTimestamp == nil && (state == operatorv1.Managed || state == ""):
		result = r.install(ctx, cr)
	default:
		// Unmanaged, states that this operator does not know, and the end of a ClusterCSIDriver whose driver is part of
		// the cluster: nothing is touched, the status tells what runs.
		result = r.observe(ctx, cr)
	}
	result.unwanted = unwanted
	return result, nil
}

// outcome is what a reconcile found; the conditions follow from it.
type outcome struct {
	cfg     driver.Config
	changes apply.ChangeSet
	// problems say what of the configuration can't be followed, held which workloads wait for what.
	problems []string
	held     held
	// takeover is how far the driver is taken over from a predecessor. Blocked means that one is in the way, and sharesStatus
	// that it writes the status too.
	takeover              takeover
	blocked, sharesStatus bool
	// err is what went wrong outside of the changes: reading, rendering, the finalizer.
	err error
	// inUse says which pods hold up a removal that has not begun. Removing means that it has, waiting says for what, and
	// removed means that it is complete.
	inUse, waiting string
	// unwanted says what comes of the annotation that the driver is not wanted.
	unwanted verdict
	// blocking is the number of these pods, remaining that of the objects and pods that have still to go.
	blocking, remaining int
	removing, removed   bool
	// again is when to look once more although no event may come.
	again time.Duration
}

// applied tells whether everything was applied, so that all that is there is of this version.
func (o *outcome) applied() bool {
	return o.err == nil && len(o.changes) > 0 && len(o.changes.With(apply.Failed, apply.Terminating)) == 0
}

// install is the trip for a driver that is managed.
func (r *Reconciler) install(ctx context.Context, cr *operatorv1.ClusterCSIDriver) outcome {
	if err := r.addFinalizer(ctx, cr); err != nil {
		return outcome{err: err}
	}
	return r.apply(ctx, cr)
}

// apply reads, renders and applies.
func (r *Reconciler) apply(ctx context.Context, cr *operatorv1.ClusterCSIDriver) outcome {
	cfg, problems, err := r.config(ctx, cr)
	if err != nil {
		return outcome{cfg: cfg, err: err}
	}
	if err := r.lookElsewhere(ctx, cr); err != nil {
		return outcome{cfg: cfg, err: err}
	}
	obstacle, err := r.obstacle(ctx)
	if err != nil {
		return outcome{cfg: cfg, err: err}
	}
	if message := obstacle.message; message != "" {
		return outcome{
			cfg: cfg, problems: problems, held: held{driver.Controller: message, driver.Node: message},
			blocked: true, sharesStatus: obstacle.sharesStatus, again: r.patience.pause(r.Now(), message),
		}
	}
	if err := r.dropFinalizers(ctx, cr, r.isLegacy); err != nil {
		return outcome{cfg: cfg, err: err}
	}
	if err := r.inherit(ctx, cr, &cfg); err != nil {
		return outcome{cfg: cfg, err: err}
	}
	old, err := r.oldPods(ctx)
	if err != nil {
		return outcome{cfg: cfg, err: err}
	}
	cfg.TakingOver = len(old) > 0
	// Nothing may be mounted while there is none, which matters while pods of two operators come and go.
	r.applier.Lasting = map[schema.GroupKind]bool{{Group: storagev1.GroupName, Kind: "CSIDriver"}: cfg.TakingOver}
	waits, again, err := r.inputs(ctx, &cfg)
	if err != nil {
		return outcome{cfg: cfg, err: err}
	}
	replacing := r.holdController(waits)
	objects, err := r.rendered.render(r.Driver, r.Client.Scheme(), cfg)
	if err != nil {
		// It stays until the operator or the configuration is changed.
		return outcome{cfg: cfg, err: reconcile.TerminalError(err)}
	}
	changes := r.applier.Set(ctx, due(objects, cfg, waits))
	changes = append(changes, r.applier.Prune(ctx, objects)...)
	if replacing {
		changes, again = append(changes, r.endController(ctx, changes)...), status.Soonest(again, handoverInterval)
	}
	takeover, err := r.takeOver(ctx, cr, old, changes, waits)
	changes = append(changes, takeover.changes...)
	logChanges(ctx, changes)
	return outcome{
		cfg: cfg, changes: changes, problems: problems, held: waits, takeover: takeover, err: err, again: status.Soonest(again, takeover.again),
	}
}

// due leaves out what is not applied for the moment: a workload that waits for what its pods read, and a StorageClass
// that the user looks after.
func due(objects []client.Object, cfg driver.Config, waits held) []client.Object {
	applied := make([]client.Object, 0, len(objects))
	for _, object := range objects {
		skip := false
		switch object.(type) {
		case *appsv1.Deployment:
			skip = waits[driver.Controller] != ""
		case *appsv1.DaemonSet:
			skip = waits[driver.Node] != ""
		case *storagev1.StorageClass:
			skip = cfg.Spec.StorageClassState == operatorv1.UnmanagedStorageClass
		}
		if !skip {
			applied = append(applied, object)
		}
	}
	return applied
}

// observe reads what the report needs, and no more.
func (r *Reconciler) observe(ctx context.Context, cr *operatorv1.ClusterCSIDriver) outcome {
	cfg, problems, err := r.config(ctx, cr)
	return outcome{cfg: cfg, problems: problems, err: err}
}

// logChanges tells what was done, not what was found in order.
func logChanges(ctx context.Context, changes apply.ChangeSet) {
	for _, change := range changes.With(apply.Created, apply.Configured, apply.Deleted) {
		ctrl.LoggerFrom(ctx).Info(string(change.Action), "object", change.Subject.String())
	}
}

// finish writes the status and tells the queue what comes next.
func (r *Reconciler) finish(ctx context.Context, cr *operatorv1.ClusterCSIDriver, result outcome) (ctrl.Result, error) {
	var again time.Duration
	var reportErr error
	if gone := result.removed && cr.DeletionTimestamp != nil && len(cr.Finalizers) == 0; gone {
		// The cache may go on to show it for a moment.
		r.gone = cr.UID
		r.reporter.say(cr, corev1.EventTypeNormal, eventRemoved, "driver "+r.Driver.Name+" is removed")
	} else {
		again, reportErr = r.reporter.report(ctx, cr, result)
	}
	again = status.Soonest(again, result.again)
	if r.applier.Written.Pending() {
		again = status.Soonest(again, apply.StaleAfter)
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
		return ctrl.Result{RequeueAfter: status.Soonest(again, time.Second)}, nil
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
	r.metrics.absent()
	r.SetLogLevel("")
	r.failures = &status.Failures{Now: r.Now}
	r.rollouts = &status.Rollouts{Now: r.Now}
	r.inUse, r.elsewhere, r.bindingsCleared, r.patience = inUse{}, elsewhere{}, false, patience{}
}

// Alive is a check for the liveness probe.
func (r *Reconciler) Alive(*http.Request) error { return r.busy.Check(r.Driver.Name, r.Now()) }
