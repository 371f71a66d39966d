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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// seen is what a reconcile has read, each object once.
type seen struct {
	live live
	// config is complete when it is returned; nothing changes it afterwards. Problems say what of the configuration can't be followed.
	config   driver.Config
	problems []string
	// disabled says why a driver that was never installed is not; nothing is applied then.
	disabled derived.Absence
	// undecided means that the cloud has not said yet whether there is anything to drive; nothing is applied before it does.
	undecided bool
	// trouble is why the cloud does not answer.
	trouble derived.CloudTrouble
	// holds say which workload is not applied for the moment, and why.
	holds   driver.Holds
	derived derived.Secret
	// pending says which PVCs wait for what nobody else names.
	pending   string
	migration migration.State
	// again is when to look once more although no event may come.
	again time.Duration
}

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

// observe reads what rendering, migrating and reporting depend on.
func (r *Reconciler) observe(ctx context.Context, cr *operatorv1.ClusterCSIDriver, live live) (seen, error) {
	found := seen{live: live, trouble: r.Derived.Trouble()}
	var failure, err error
	found.migration, failure = r.Migration.Observe(ctx, cr, live.daemonSet)
	found.config, found.problems, err = r.config(ctx, cr, live, found.migration)
	if err := errors.Join(failure, err); err != nil {
		return found, err
	}
	found.again = found.migration.Again
	if len(found.config.ClassesInUse) > 0 {
		found.again = status.MinRequeue(found.again, classInterval)
	}
	if live.deployment == nil && live.daemonSet == nil {
		hasPods := live.pods[driver.Controller] || live.pods[driver.Node]
		found.disabled, found.undecided, err = r.Derived.Absence(ctx, found.config, found.trouble, hasPods, cr.Status.Conditions)
	}
	switch {
	case err != nil || found.disabled.Reason != "":
		return found, err
	case found.undecided:
		message := "waiting for the first answer of the cloud: whether it has what the driver is for"
		if secret, _ := live.credentials.Missing(r.Driver, r.Namespace); secret != "" {
			message = "waiting for " + secret + ": without it, the operator can't ask the cloud"
		}
		found.holds = driver.Holds{driver.Controller: message, driver.Node: message}
		return found, r.addPredecessors(ctx, cr, &found)
	}
	if message := found.migration.Blocker; message != "" {
		found.holds = driver.Holds{driver.Controller: message, driver.Node: message}
		return found, r.addPredecessors(ctx, cr, &found)
	}
	var again time.Duration
	found.pending, again, err = r.Pending.Message(ctx)
	if err := errors.Join(r.inputs(ctx, &found), err); err != nil {
		return found, err
	}
	found.again = status.MinRequeue(found.again, again)
	if hold := found.migration.ControllerHold(); hold != "" && found.holds[driver.Controller] == "" {
		found.holds[driver.Controller] = hold
	}
	return found, r.addPredecessors(ctx, cr, &found)
}

// look reads what the report needs, and no more.
func (r *Reconciler) look(ctx context.Context, cr *operatorv1.ClusterCSIDriver, live live) outcome {
	found := seen{live: live, trouble: r.Derived.Trouble()}
	var err error
	found.config, found.problems, err = r.config(ctx, cr, live, migration.State{})
	return found.outcome(errors.Join(err, r.addPredecessors(ctx, cr, &found)))
}

// readLive reads what there is of the driver, all from the cache.
func (r *Reconciler) readLive(ctx context.Context) (live, error) {
	found := live{pods: map[driver.Workload]bool{}, unready: map[driver.Workload][]string{}}
	if err := r.readWorkloads(ctx, &found); err != nil {
		return found, err
	}
	for _, workload := range []driver.Workload{driver.Controller, driver.Node} {
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
	var err error
	found.credentials, err = r.Credentials.Read(ctx)
	return found, err
}

// addPredecessors fills in workloads of a predecessor that the cache does not show, and that go on serving while ours are held or while
// nothing is touched. The driver of the payload may be there before its operator is.
func (r *Reconciler) addPredecessors(ctx context.Context, cr *operatorv1.ClusterCSIDriver, found *seen) error {
	if r.Driver.Removable {
		return r.addUnmanaged(ctx, cr, &found.live)
	}
	var err error
	if found.isHidden(driver.Controller, found.live.deployment != nil) {
		found.live.deployment, err = hidden[appsv1.Deployment](ctx, r, r.Driver.Deployment)
	}
	if err == nil && found.isHidden(driver.Node, found.live.daemonSet != nil) {
		found.live.daemonSet, err = hidden[appsv1.DaemonSet](ctx, r, r.Driver.DaemonSet)
	}
	return err
}

// isHidden tells whether a workload that is held has pods although the cache, which has only ours, does not have the workload.
func (s *seen) isHidden(workload driver.Workload, known bool) bool {
	return s.holds[workload] != "" && !known && s.live.pods[workload]
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

// readWorkloads reads the two workloads: the newest, because a cache that lags behind our own apply would call a roll-out complete that has
// not begun. What it does not find stays: while a workload is held, it may be a predecessor's.
func (r *Reconciler) readWorkloads(ctx context.Context, found *live) error {
	deployment, err := apply.Newest[appsv1.Deployment](ctx, r.applier, client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.Deployment})
	if err != nil {
		return err
	}
	daemonSet, err := apply.Newest[appsv1.DaemonSet](ctx, r.applier, client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.DaemonSet})
	if deployment != nil {
		found.deployment = deployment
	}
	if daemonSet != nil {
		found.daemonSet = daemonSet
	}
	return err
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
