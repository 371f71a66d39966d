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

// classInterval is how soon to look again whether the last PersistentVolume has gone of a StorageClass that the cloud speaks against. They are
// not watched.
const classInterval = 30 * time.Minute

// seen is what a reconcile has read, each object once. Nothing changes it after observe, remove or look has returned it.
type seen struct {
	live live
	// unread means that not even the workloads could be read: there is nothing to report.
	unread bool
	config driver.Config
	// problems say what of the configuration can't be followed.
	problems []string
	// inventory are all objects that the driver can have; others are neither pruned nor removed.
	inventory []apply.Subject
	// keepAlive are kinds of which no object is deleted to be made anew.
	keepAlive map[schema.GroupKind]bool
	// cloudInputs is a hash of what the cloud can be asked with; nil if it could not be read. Resources in the cloud are managed if
	// managesCloud is true, else they are left alone.
	cloudInputs  *string
	managesCloud bool
	// disabled says why a driver that was never installed is not; nothing is applied then.
	disabled derived.Absence
	// undecided means that the cloud has not said yet whether there is anything to drive; nothing is applied before it does.
	undecided bool
	// trouble is why the cloud does not answer.
	trouble derived.CloudTrouble
	// bundleWait is how long workloads may wait for the certificates that the cluster trusts; 0 if they are there, or do not come.
	bundleWait time.Duration
	// holds say which workload is not applied for the moment, and why.
	holds   driver.Holds
	derived derived.Secret
	// pending says which PVCs wait for what nobody else names.
	pending   string
	migration migration.State
	// again is when to look once more although no event may come.
	again time.Duration
}

// blocked reports whether nothing may be applied.
func (s *seen) blocked() bool { return s.migration.Blocked() || s.disabled.Reason != "" || s.undecided }

// live is what there is of the driver; nil means absent.
type live struct {
	deployment *appsv1.Deployment
	daemonSet  *appsv1.DaemonSet
	// predecessors means that some of these are a predecessor's, from which the driver is not migrated yet.
	predecessors bool
	// pods tells which workload has any, whoever has made it; unready are those that are not ready, with the reason.
	pods    map[driver.Workload]bool
	unready map[driver.Workload][]string
	// unregistered says on which nodes the kubelet has not registered the driver, and again is when to look once more.
	unregistered string
	again        time.Duration
	credentials  credential.Found
}

// observe reads what rendering, applying, migrating and reporting depend on, and changes nothing.
func (r *Reconciler) observe(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (seen, error) {
	found, err := r.observeLive(ctx)
	if err != nil {
		return found, err
	}
	var failure error
	found.migration, failure = r.Migration.Observe(ctx, cr, found.live.daemonSet)
	if err := errors.Join(failure, r.observeConfig(ctx, cr, &found)); err != nil {
		return found, err
	}
	// Nothing may be mounted while there is none, which matters while pods of two operators come and go.
	found.keepAlive = map[schema.GroupKind]bool{{Group: storagev1.GroupName, Kind: "CSIDriver"}: found.config.Migrating}
	found.again = found.migration.Again
	if len(found.config.ClassesInUse) > 0 {
		found.again = status.MinRequeue(found.again, classInterval)
	}
	if found.live.deployment == nil && found.live.daemonSet == nil {
		hasPods := found.live.pods[driver.Controller] || found.live.pods[driver.Node]
		found.disabled, found.undecided, err = r.Derived.Absence(ctx, found.config, found.trouble, hasPods, cr.Status.Conditions)
	}
	if err == nil && !found.blocked() {
		err = r.observeInputs(ctx, &found)
	}
	if err != nil {
		return found, err
	}
	var again time.Duration
	found.holds, again = r.holds(&found)
	found.again = status.MinRequeue(found.again, again)
	return found, r.addPredecessors(ctx, cr, &found.live)
}

// look reads what the report needs, and no more.
func (r *Reconciler) look(ctx context.Context, cr *operatorv1.ClusterCSIDriver) outcome {
	found, err := r.observeLive(ctx)
	if err == nil {
		err = errors.Join(r.observeConfig(ctx, cr, &found), r.addPredecessors(ctx, cr, &found.live))
	}
	r.followCloud(found)
	return found.outcome(err)
}

// observeLive begins to observe, with what there is of the driver.
func (r *Reconciler) observeLive(ctx context.Context) (seen, error) {
	live, err := r.readLive(ctx)
	return seen{live: live, unread: err != nil, trouble: r.Derived.Trouble()}, err
}

// observeConfig reads the configuration, but for the inputs of the pods, and what follows from it.
func (r *Reconciler) observeConfig(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found *seen) error {
	state := cr.Spec.StorageClassState
	// What is made in a cloud is for the StorageClass.
	found.managesCloud = state == operatorv1.ManagedStorageClass || state == ""
	var err error
	found.config, found.problems, err = r.config(ctx, cr, found.live, found.migration)
	if err != nil {
		return err
	}
	found.inventory = r.inventory(found.config.Classes)
	inputs, err := r.Derived.CloudInputs(ctx, found.live.credentials)
	if err == nil {
		found.cloudInputs = &inputs
	}
	return err
}

// observeInputs reads what pods read when they start, and the PVCs that wait.
func (r *Reconciler) observeInputs(ctx context.Context, found *seen) error {
	var again time.Duration
	var err error
	found.pending, again, err = r.Pending.Message(ctx)
	found.again = status.MinRequeue(found.again, again)
	return errors.Join(r.inputs(ctx, found), err)
}

// readLive reads what there is of the driver, all from the cache.
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
			found.unregistered, found.again = r.Nodes.Unregistered(pods.Items)
		}
	}
	found.credentials, err = r.Credentials.Read(ctx)
	return found, err
}

// addPredecessors fills in workloads of a predecessor that the cache does not show, and that go on serving while ours are held or while
// nothing is touched. The driver of the payload may be there before its operator is.
func (r *Reconciler) addPredecessors(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found *live) error {
	if r.Driver.Removable {
		return r.addUnmanaged(ctx, cr, found)
	}
	var err error
	deployment, daemonSet := found.deployment, found.daemonSet
	// Its pods are the evidence: without any, nothing is asked for.
	if found.deployment == nil && found.pods[driver.Controller] {
		found.deployment, err = hidden[appsv1.Deployment](ctx, r, r.Driver.Deployment)
	}
	if err == nil && found.daemonSet == nil && found.pods[driver.Node] {
		found.daemonSet, err = hidden[appsv1.DaemonSet](ctx, r, r.Driver.DaemonSet)
	}
	if found.deployment != deployment || found.daemonSet != daemonSet {
		// No watch tells of a workload that the cache does not show.
		found.again = status.MinRequeue(found.again, status.MostPause)
	}
	return err
}

// hidden reads a workload with the name of ours; nil if there is none.
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

// addUnmanaged fills in what a predecessor runs in our namespace while nothing is touched.
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

// workloads reads the two workloads: the newest, because a cache that lags behind our own apply would call a roll-out complete that has
// not begun. Nil means that the cache has none; a predecessor's, it does not show.
func (r *Reconciler) workloads(ctx context.Context) (*appsv1.Deployment, *appsv1.DaemonSet, error) {
	deployment, err := apply.Newest[appsv1.Deployment](ctx, r.applier, client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.Deployment})
	if err != nil {
		return nil, nil, err
	}
	daemonSet, err := apply.Newest[appsv1.DaemonSet](ctx, r.applier, client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.DaemonSet})
	return deployment, daemonSet, err
}

// inputsOf are the hashes that the live workloads were made with.
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
