package clustercsidriver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// classInterval is the time between two checks whether PersistentVolumes still use a StorageClass for which the cloud lacks a share type. The
// operator does not watch PersistentVolumes.
const classInterval = 30 * time.Minute

// seen is everything that a reconcile has read. The reconcile reads each object once. After observe or inspect returns, nothing changes seen.
type seen struct {
	live live
	// unread is true if the operator could not read the workloads, so that it has nothing to report.
	unread bool
	config driver.Config
	// problems lists settings that the operator can't apply.
	problems []string
	// inventory lists all objects that the driver can have. The operator prunes and removes no other object.
	inventory []apply.Subject
	// keepAlive has the kinds of objects that the operator must not delete and create again now.
	keepAlive map[schema.GroupKind]bool
	// cloudInputs is a hash of the credentials and files for cloud requests. It is nil if the operator could not read the credentials and files.
	// managesCloud is true if the operator manages resources in the cloud. If it is false, the operator leaves these resources unchanged.
	cloudInputs  *string
	managesCloud bool
	// disabled says why the operator never installed the driver. While such a reason exists, the operator applies nothing. If none exists, disabled is
	// the zero value.
	disabled derived.Absence
	// undecided is true until the cloud says whether the cluster needs the driver. Until then, the operator applies nothing.
	undecided bool
	// cloudFailure says why the cloud does not answer. It is zero if the cloud answers.
	cloudFailure derived.CloudFailure
	// bundleWait is how long workloads still wait for the trusted CA bundle. It is 0 if the bundle exists, if the wait is over, or if nothing fills in
	// the bundle.
	bundleWait time.Duration
	// holds says which workloads the operator must not apply yet, and why.
	holds   driver.Holds
	derived derived.Secret
	// pending is the message about pending PVCs, from package pendingpvc. It is empty if there is nothing to report.
	pending   string
	migration migration.State
	// Field "again" is the delay until the next reconcile if no event comes earlier; 0 means never.
	again time.Duration
}

// blocked reports whether the operator must not apply anything.
func (s *seen) blocked() bool { return s.migration.Blocked() || s.disabled.Reason != "" || s.undecided }

// live is the installed driver. A nil field means that the object is absent.
type live struct {
	deployment *appsv1.Deployment
	daemonSet  *appsv1.DaemonSet
	// predecessors is true if a workload belongs to a predecessor that the operator has not migrated yet.
	predecessors bool
	// classes are the StorageClasses and VolumeSnapshotClasses by which the operator decides which of its classes are the default.
	classes []driver.Class
	// pods says for each workload whether it has pods, whoever owns them. unready lists the unready pods, each with the reason.
	pods    map[driver.Workload]bool
	unready map[driver.Workload][]string
	// failing is true if a node pod is not ready, although the pod was created at least status.StuckAfter ago.
	failing bool
	// unregistered names the nodes whose kubelet has not registered the driver. It is empty if there are none. Field "again" is the delay until the next
	// check; 0 means never.
	unregistered string
	again        time.Duration
	credentials  credential.Found
}

// observe adds to argument "found" everything that the operator needs to render, apply, migrate and report. The caller has already added the
// installed driver. observe changes no object in the cluster.
func (r *Reconciler) observe(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen) (seen, error) {
	var err, failure error
	found.migration, failure = r.Migration.Observe(ctx, cr, found.live.daemonSet)
	hasPods := found.live.pods[driver.Controller] || found.live.pods[driver.Node]
	absent := found.live.deployment == nil && found.live.daemonSet == nil
	failure = errors.Join(failure, r.observeConfig(ctx, cr, &found))
	if absent {
		var cfg *driver.Config
		if failure == nil {
			cfg = &found.config
		}
		found.disabled, found.undecided, err = r.Derived.Absence(ctx, cfg, found.cloudFailure, hasPods, cr.Status.Conditions)
	}
	if err := errors.Join(failure, err); err != nil {
		return found, err
	}
	// Nodes can't mount volumes while the CSIDriver is absent, and a migration would prolong that absence. So the operator does not recreate the
	// CSIDriver during a migration.
	found.keepAlive = map[schema.GroupKind]bool{{Group: storagev1.GroupName, Kind: "CSIDriver"}: found.config.Migrating}
	found.again = found.migration.Again
	if len(found.config.ClassesInUse) > 0 {
		found.again = status.MinRequeue(found.again, classInterval)
	}
	if !found.blocked() {
		if err := r.observeInputs(ctx, &found); err != nil {
			return found, err
		}
	}
	var again time.Duration
	found.holds, again = r.holds(&found)
	found.again = status.MinRequeue(found.again, again)
	return found, r.addPredecessors(ctx, cr, &found.live)
}

// inspect reads only what the operator needs to report.
func (r *Reconciler) inspect(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found seen) outcome {
	err := errors.Join(r.observeConfig(ctx, cr, &found), r.addPredecessors(ctx, cr, &found.live))
	r.pollCloud(found)
	return found.outcome(err)
}

// observeLive reads the installed driver and its inventory. A removal needs nothing else.
func (r *Reconciler) observeLive(ctx context.Context) (seen, error) {
	live, err := r.readLive(ctx)
	return seen{live: live, unread: err != nil, inventory: r.inventory(live.classes), cloudFailure: r.Derived.Failure()}, err
}

// observeConfig reads the configuration of the driver, which includes the last answer of the cloud. It also reads the inputs for cloud requests.
// observeInputs reads the Secrets and ConfigMaps of the pods.
func (r *Reconciler) observeConfig(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found *seen) error {
	state := cr.Spec.StorageClassState
	// The StorageClass needs the resources in the cloud. So the operator manages these resources if it manages the StorageClass.
	found.managesCloud = state == operatorv1.ManagedStorageClass || state == ""
	var err error
	found.config, found.problems, err = r.config(ctx, cr, found.live, found.migration)
	if err != nil {
		return err
	}
	inputs, err := r.Derived.CloudInputs(ctx, found.live.credentials)
	if err == nil {
		found.cloudInputs = &inputs
	}
	return err
}

// observeInputs reads the Secrets and ConfigMaps that pods read when they start. It also reads pending PVCs.
func (r *Reconciler) observeInputs(ctx context.Context, found *seen) error {
	var again time.Duration
	var err error
	found.pending, again, err = r.Pending.Message(ctx)
	found.again = status.MinRequeue(found.again, again)
	return errors.Join(r.inputs(ctx, found), err)
}

// readLive reads the installed driver from the cache.
func (r *Reconciler) readLive(ctx context.Context) (live, error) {
	found := live{pods: map[driver.Workload]bool{}, unready: map[driver.Workload][]string{}}
	var err error
	if found.deployment, found.daemonSet, err = r.workloads(ctx); err != nil {
		return found, err
	}
	for _, workload := range workloads() {
		pods := &corev1.PodList{}
		selector := client.MatchingLabels(r.Driver.SelectorOf(workload))
		if err := r.Client.List(ctx, pods, client.InNamespace(r.Namespace), selector, client.UnsafeDisableDeepCopy); err != nil {
			return found, fmt.Errorf("list %s pods: %w", workload, err)
		}
		found.pods[workload], found.unready[workload] = len(pods.Items) > 0, status.Unready(pods.Items)
		if workload == driver.Node {
			found.failing = status.Failing(pods.Items, r.Now())
			found.unregistered, found.again = r.Nodes.Unregistered(pods.Items)
		}
	}
	if found.classes, err = r.classes(ctx); err != nil {
		return found, err
	}
	found.credentials, err = r.Credentials.Read(ctx)
	return found, err
}

// addPredecessors adds workloads of a predecessor that the cache does not show. These workloads keep serving while our workloads are held or
// unmanaged. A payload driver can be installed before this operator is. So for a payload driver, addPredecessors always looks for such workloads. For
// another driver, it looks for them only while the driver is Unmanaged.
func (r *Reconciler) addPredecessors(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found *live) error {
	if r.Driver.Removable {
		return r.addUnmanaged(ctx, cr, found)
	}
	var err error
	deployment, daemonSet := found.deployment, found.daemonSet
	// To save requests, the operator does not read a workload without pods.
	if found.deployment == nil && found.pods[driver.Controller] {
		found.deployment, err = hidden[appsv1.Deployment](ctx, r, r.Driver.Deployment)
	}
	if err == nil && found.daemonSet == nil && found.pods[driver.Node] {
		found.daemonSet, err = hidden[appsv1.DaemonSet](ctx, r, r.Driver.DaemonSet)
	}
	if found.deployment != deployment || found.daemonSet != daemonSet {
		// The operator does not watch a workload that the cache does not show, so it polls.
		found.again = status.MinRequeue(found.again, status.MostPause)
	}
	return err
}

// hidden reads a workload of our name that the cache does not show. It returns nil if the workload is absent.
func hidden[T any, P interface {
	*T
	client.Object
}](ctx context.Context, r *Reconciler, name string) (P, error) {
	workload := P(new(T))
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, workload)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for %s of a predecessor: %w", name, err)
	}
	return workload, nil
}

// addUnmanaged adds a predecessor's workloads in our namespace while the driver is Unmanaged.
func (r *Reconciler) addUnmanaged(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found *live) error {
	if cr.Spec.ManagementState != operatorv1.Unmanaged {
		return nil
	}
	serving, err := r.Migration.Serving(ctx, cr)
	if err != nil {
		return err
	}
	if found.daemonSet == nil && serving.DaemonSet != nil {
		found.daemonSet, found.predecessors = serving.DaemonSet, true
		found.unready[driver.Node] = status.Unready(serving.Pods)
	}
	if found.deployment == nil && serving.Deployment != nil {
		found.deployment, found.predecessors = serving.Deployment, true
	}
	return nil
}

// workloads reads the Deployment and the DaemonSet from the cache. If our latest apply returned a newer workload, it takes that workload instead. A
// lagging cache would show a roll-out as complete before the roll-out has begun. A nil workload is absent, or belongs to a predecessor and is not in
// the cache.
func (r *Reconciler) workloads(ctx context.Context) (*appsv1.Deployment, *appsv1.DaemonSet, error) {
	deployment, err := apply.Newest[appsv1.Deployment](ctx, r.applier, client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.Deployment})
	if err != nil {
		return nil, nil, err
	}
	daemonSet, err := apply.Newest[appsv1.DaemonSet](ctx, r.applier, client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.DaemonSet})
	return deployment, daemonSet, err
}

// inputsOf returns the input hashes in the live workloads.
func (l live) inputsOf() map[driver.Workload]map[string]string {
	found := map[driver.Workload]map[string]string{driver.Controller: {}, driver.Node: {}}
	if l.deployment != nil {
		maps.Copy(found[driver.Controller], inputsIn(l.deployment.Spec.Template.Annotations))
	}
	if l.daemonSet != nil {
		maps.Copy(found[driver.Node], inputsIn(l.daemonSet.Spec.Template.Annotations))
	}
	return found
}
