package clustercsidriver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The condition types that existing tools read, without the suffixes Available, Progressing and Degraded. In a condition, Driver.ConditionPrefix
// precedes the types that start with Driver.
const (
	managementState     = "ManagementState"
	configObservation   = "ConfigObservation"
	controlPlaneObjects = "DriverControlPlaneStaticResourcesController"
	guestObjects        = "DriverGuestStaticResourcesController"
	controllerService   = "DriverControllerServiceController"
	nodeService         = "DriverNodeServiceController"
)

// conditioner computes conditions from an outcome. Between reconciles, only its fields failures, rollouts and waits keep state.
type conditioner struct {
	driver    driver.Driver
	namespace string
	kinds     map[schema.GroupKind]bool
	failures  *status.Failures
	rollouts  *status.Rollouts
	waits     *status.Waits
}

// conditions returns all conditions of the ClusterCSIDriver and the time until the next reconcile. Result "stable" is the newest generation of the
// DaemonSet that the operator has rolled out to all nodes.
func (c conditioner) conditions(
	cr *operatorv1.ClusterCSIDriver, result outcome,
) (all []operatorv1.OperatorCondition, stable int64, again time.Duration) {
	ends, disabled := result.removal.removing || result.removal.removed, result.seen.disabled.Reason != ""
	if ends || disabled {
		c.waits.Reset()
	}
	report := &status.Statement{}
	c.reportTrip(report, cr, result, ends)
	switch {
	case ends:
		c.reportRemoval(report, cr, result)
	case disabled:
		c.reportDisabled(report, cr, result)
	default:
		stable = c.reportRunning(report, cr, result)
	}
	return report.Conditions, stable, report.Again
}

// reportTrip reports the management state and the errors of the reconcile.
func (c conditioner) reportTrip(report *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome, ends bool) {
	failure := func(prefix string, err error) {
		condition, again := c.failures.Degraded(prefix, err)
		report.Add(again, condition)
	}
	report.Add(0, c.managementCondition(cr, result.unwanted))
	failure(configObservation, result.err)
	if result.err == nil {
		c.notFollowed(report, cr, withDropped(result.seen.problems, cr, result.changes))
	}
	for kind, changes := range c.group(result.changes, ends) {
		failure(c.driver.ConditionPrefix+kind, changes.Err())
	}
}

func (c conditioner) reportRemoval(report *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) {
	report.Add(0, c.removalConditions(result)...)
	c.removalStuck(report, result)
	c.sum(report, cr)
	if result.removal.removed && result.unwanted.remove {
		// The cluster-storage-operator waits for this condition before it continues the removal.
		report.Replace(status.Condition(status.Progressing, false, removedReason, result.unwanted.message))
	}
}

// reportDisabled says why the operator never installed the driver. The driver counts as Available, because the cluster does not need the driver.
func (c conditioner) reportDisabled(report *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) {
	c.reportCloud(report, result)
	for _, service := range []string{controllerService, nodeService} {
		prefix := c.driver.ConditionPrefix + service
		report.Add(0, status.Condition(prefix+status.Available, true, derived.Disabled, result.seen.disabled.Message),
			status.Condition(prefix+status.Progressing, false, "", ""))
	}
	c.sum(report, cr)
}

// reportRunning reports on the running driver. Result "stable" is the same as in conditions.
func (c conditioner) reportRunning(report *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) (stable int64) {
	c.reportCloud(report, result)
	stable = c.reportServices(report, cr, result)
	report.RequeueAfter(result.seen.live.again)
	if result.seen.live.predecessors {
		// The DaemonSet is the predecessor's, so the operator does not store its generation. The operator does not watch the predecessor's Deployment, so
		// it polls the Deployment.
		stable = 0
		report.RequeueAfter(status.MostPause)
	}
	c.degradeServices(report, cr, result)
	credentials, again := c.credentialConditions(cr, result)
	report.Add(again, credentials...)
	c.sum(report, cr)
	c.explain(report.Conditions, result)
	return stable
}

// reportCloud reports whether the cloud answers. It also reports whether the driver is disabled because the cloud does not answer or lacks a service.
// The cluster-storage-operator recognizes the condition about the disabled driver by its suffix DriverDisabled.
func (c conditioner) reportCloud(report *status.Statement, result outcome) {
	prefix, why := c.driver.ConditionPrefix, result.seen.disabled
	if c.driver.Cloud != nil {
		condition, again := result.seen.cloudFailure.Condition(prefix+cloudService+status.Degraded, why.Reason != "", c.failures.Now())
		report.Add(again, condition)
	}
	if c.driver.Disabled != nil {
		report.Add(0, status.Condition(prefix+derived.Disabled, why.Reason != "", why.Reason, why.Message))
	}
}

// sum adds the summary conditions Available, Progressing, Degraded and Upgradeable. The summaries include the conditions of other controllers. They
// omit conditions that only a predecessor wrote.
func (c conditioner) sum(report *status.Statement, cr *operatorv1.ClusterCSIDriver) {
	report.Conditions = status.Sum(report.Conditions, slices.DeleteFunc(slices.Clone(cr.Status.Conditions), func(one operatorv1.OperatorCondition) bool {
		return c.isOwn(one.Type) || slices.Contains(c.driver.LegacyConditions, one.Type)
	}))
}

// notFollowed reports configuration that the operator can't apply. It also reports settings for another driver. These settings do no harm, so for
// them alone the condition's status is False.
func (c conditioner) notFollowed(report *status.Statement, cr *operatorv1.ClusterCSIDriver, problems []string) {
	degraded, messages := len(problems) > 0, problems
	if text := unused(c.driver, cr.Spec.DriverConfig); text != "" {
		messages = append(slices.Clone(problems), text)
	}
	if len(messages) > 0 {
		report.Replace(status.Condition(configObservation+status.Degraded, degraded, "NotFollowed", strings.Join(messages, "; ")))
	}
}

// removalStuck reports Degraded if a removal makes no progress.
func (c conditioner) removalStuck(report *status.Statement, result outcome) {
	stuck, again := c.rollouts.Stuck("removal", result.removal.removing && result.err == nil, status.Work{Done: -int64(result.removal.remaining)})
	report.RequeueAfter(again)
	if stuck {
		report.Replace(status.Condition(c.driver.ConditionPrefix+nodeService+status.Degraded, true, "RemovalStuck",
			fmt.Sprintf("the removal of the driver has made no progress for %s: %s", status.StuckAfter, result.removal.waiting)))
	}
}

// reportServices reports the roll-outs of the Deployment and the DaemonSet. Result "stable" is the same as in conditions.
func (c conditioner) reportServices(report *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) (stable int64) {
	live := result.live()
	controller, onNodes := c.driver.ConditionPrefix+controllerService, c.driver.ConditionPrefix+nodeService
	report.Add(0, status.Deployment(controller, live.deployment, live.unready[driver.Controller])...)
	found, stable := status.DaemonSet(onNodes, live.daemonSet, c.stableGeneration(cr, live.daemonSet), live.unready[driver.Node])
	report.Add(0, found...)
	for workload, message := range result.holds() {
		prefix, absent := onNodes, live.daemonSet == nil
		if workload == driver.Controller {
			prefix, absent = controller, live.deployment == nil
		}
		report.Replace(status.Condition(prefix+status.Progressing, true, "Waiting", message))
		if absent {
			report.Replace(status.Condition(prefix+status.Available, false, "Waiting", message))
		}
	}
	if message := result.moved.Message; message != "" {
		report.Replace(status.Condition(onNodes+status.Progressing, true, migration.TakingOver, message))
		if result.moved.Serving > 0 {
			// The node pods of the predecessor serve, too, so the node service is available.
			report.Replace(status.Condition(onNodes+status.Available, true, "", ""))
		}
	}
	if rolled := result.rolled; rolled.Message != "" {
		report.Replace(status.Condition(onNodes+status.Progressing, true, rolled.Reason, rolled.Message))
	}
	if result.removal.inUse != "" {
		report.Replace(status.Condition(onNodes+status.Progressing, true, inUseReason, result.removal.inUse))
	}
	return stable
}

// degradeServices reports failures of running services.
func (c conditioner) degradeServices(report *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) {
	kind := c.driver.ConditionPrefix + nodeService + status.Degraded
	if message := result.seen.live.unregistered; message != "" {
		report.Degrade(status.Condition(kind, true, "NotRegistered", message))
	}
	if message := result.rolled.Failed; message != "" {
		// The roll-out stops, because its canary has failed.
		report.Degrade(status.Condition(kind, true, "CanaryFailed", message))
	}
	if message := result.rolled.PullFailed; message != "" {
		// The nodes in the message are in use, and keep their old node pods. So the failure disturbs no application, but the roll-out can't end.
		report.Degrade(status.Condition(kind, true, "ImagePullFailed", message))
	}
	if cr.Spec.ManagementState != operatorv1.Unmanaged {
		// The operator rolls out nothing while the driver is Unmanaged, so a lack of progress is no failure.
		c.stuck(report, result)
	}
	c.overdue(report, cr, result)
}

// stuck reports Degraded for each service whose roll-out makes no progress.
func (c conditioner) stuck(report *status.Statement, result outcome) {
	live := result.live()
	look := func(service string, workload metav1.ObjectMeta, observed int64, total, done int32, failing bool) {
		prefix := c.driver.ConditionPrefix + service
		progressing := status.Find(report.Conditions, prefix+status.Progressing)
		// A migration is not stuck while it waits for users of volumes. A migration that waits for this operator's node pods can be stuck.
		underWay := progressing.Status == operatorv1.ConditionTrue &&
			(progressing.Reason == status.Deploying || isReplacing(progressing.Reason) || (progressing.Reason == migration.TakingOver && result.moved.Stalled))
		if observed < workload.Generation {
			// The status still has the numbers of the last roll-out. For the new roll-out, nothing is done yet.
			done = 0
		}
		stuck, wait := c.rollouts.Stuck(service+string(workload.UID), underWay, status.Work{
			Generation: workload.Generation, Total: int64(total), Done: int64(done), Failing: failing,
		})
		report.RequeueAfter(wait)
		if stuck {
			report.Degrade(status.Condition(prefix+status.Degraded, true, "RolloutStuck",
				fmt.Sprintf("the roll-out has made no progress for %s: %s; look at the pods and their events in namespace %s",
					status.StuckAfter, progressing.Message, c.namespace)))
		}
	}
	if deployment := live.deployment; deployment != nil {
		state := deployment.Status
		look(controllerService, deployment.ObjectMeta, state.ObservedGeneration, 0, state.UpdatedReplicas+state.AvailableReplicas, false)
	}
	if daemonSet := live.daemonSet; daemonSet != nil {
		state := daemonSet.Status
		// A node counts twice: once when its pod is updated, and once when its pod is available.
		done := state.UpdatedNumberScheduled + state.NumberAvailable
		look(nodeService, daemonSet.ObjectMeta, state.ObservedGeneration, 2*state.DesiredNumberScheduled, done, live.failing)
	}
}

// overdue reports Degraded for a service whose workload has been on hold (see outcome.holds) for longer than status.WaitLimit. Missing Secrets have
// their own conditions, and don't count here. A driver that was never installed can wait for its cloud without limit.
func (c conditioner) overdue(report *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) {
	if result.err != nil {
		// After an error, the list of holds can be incomplete. A hold that is missing in the list may still exist, so overdue conditions stay overdue.
		for _, service := range []string{controllerService, nodeService} {
			report.Conditions = status.KeepOverdue(report.Conditions, c.driver.ConditionPrefix+service, cr.Status.Conditions)
		}
		return
	}
	holds := result.holds()
	missing, _ := result.seen.live.credentials.Missing(c.driver, c.namespace)
	if missing != "" && !result.seen.migration.Blocked() || result.seen.undecided || cr.Spec.ManagementState == operatorv1.Unmanaged {
		holds = nil
	}
	for workload, service := range map[driver.Workload]string{driver.Controller: controllerService, driver.Node: nodeService} {
		all, again := c.waits.Degrade(report.Conditions, c.driver.ConditionPrefix+service, holds[workload], holds[workload], cr.Status.Conditions)
		report.Conditions = all
		report.RequeueAfter(again)
	}
}

// isReplacing reports whether a roll-out whose condition Progressing has this reason waits only for new node pods.
func isReplacing(reason string) bool {
	return reason == nodes.ReplacingPods || reason == nodes.PullingImages || reason == nodes.TryingCanary
}

// group groups changes by the condition that reports them. Conditions without changes are in the result, too, because a condition that the result
// lacks would keep its old state. Except during a removal, group omits changes of CredentialsRequests, because other conditions report these changes.
func (c conditioner) group(changes apply.ChangeSet, ends bool) map[string]apply.ChangeSet {
	groups := map[string]apply.ChangeSet{
		controlPlaneObjects: nil, guestObjects: nil, controllerService: nil, nodeService: nil,
	}
	for _, change := range changes {
		kind := guestObjects
		switch {
		case change.Subject.Kind == driver.CredentialsRequestKind().Kind && !ends:
			continue
		case change.Subject.Kind == "Deployment":
			kind = controllerService
		case change.Subject.Kind == "DaemonSet":
			kind = nodeService
		case change.Subject.Namespace != "":
			kind = controlPlaneObjects
		}
		groups[kind] = append(groups[kind], change)
	}
	return groups
}

func (c conditioner) managementCondition(cr *operatorv1.ClusterCSIDriver, unwanted removalWish) operatorv1.OperatorCondition {
	const kind = managementState + status.Degraded
	if unwanted.remove || unwanted.message != "" && cr.Spec.ManagementState != operatorv1.Removed {
		return status.Condition(kind, false, "NotWanted", unwanted.message)
	}
	switch state := cr.Spec.ManagementState; state {
	case operatorv1.Managed, "":
		return status.Condition(kind, false, "", "")
	case operatorv1.Unmanaged:
		return status.Condition(kind, false, "Unmanaged", "the operator changes nothing while spec.managementState is Unmanaged")
	case operatorv1.Removed:
		if c.driver.Removable || c.driver.RemovedByState {
			return status.Condition(kind, false, removedReason, "")
		}
		return status.Condition(kind, true, "Removed", c.driver.Name+" is part of the cluster and can't be removed: set "+
			"spec.managementState to Managed, or to Unmanaged to change the driver by hand")
	default:
		return status.Condition(kind, true, "Unknown", fmt.Sprintf("spec.managementState %q is unknown: the operator changes nothing until you set it to "+
			"Managed, Unmanaged or Removed", state))
	}
}

func (c conditioner) removalConditions(result outcome) []operatorv1.OperatorCondition {
	var all []operatorv1.OperatorCondition
	for _, service := range []string{controllerService, nodeService} {
		prefix := c.driver.ConditionPrefix + service
		available := status.Condition(prefix+status.Available, false, removedReason,
			"the driver is removed; set spec.managementState to Managed to install it")
		if result.unwanted.remove {
			available.Message = "the driver is removed: " + result.unwanted.message
		}
		progressing := status.Condition(prefix+status.Progressing, false, removedReason, "")
		if !result.removal.removed {
			available.Reason, available.Message = removingReason, "the driver is being removed"
			progressing = status.Condition(prefix+status.Progressing, true, removingReason, result.removal.waiting)
		}
		all = append(all, available, progressing)
	}
	if c.driver.RemovedByState && result.removal.removed && !result.unwanted.remove {
		// With this condition, the cluster-storage-operator does not report a failure. The administrator asked for the removal.
		text := "the driver is removed because spec.managementState is Removed; set it to Managed to install the driver"
		if left := result.removal.left; left != "" {
			text += ". Left in the cloud: " + left
		}
		all = append(all, status.Condition(c.driver.ConditionPrefix+derived.Disabled, true, removedReason, text))
	}
	return all
}

// explain adds notes to condition Available: about unready pods, missing kinds, and objects of other owners that the operator left unchanged.
func (c conditioner) explain(conditions []operatorv1.OperatorCondition, result outcome) {
	available := status.Find(conditions, status.Available)
	if available.Status != operatorv1.ConditionTrue {
		return
	}
	var notes []string
	for _, service := range []string{controllerService, nodeService} {
		if health := status.Find(conditions, c.driver.ConditionPrefix+service+status.Available).Message; health != "" {
			notes = append(notes, health)
		}
	}
	if result.seen.live.predecessors {
		notes = append(notes, "A predecessor still runs the driver: set spec.managementState to Managed to migrate it")
	}
	for _, text := range []string{leftOut(c.driver, c.kinds), result.seen.pending} {
		if text != "" {
			notes = append(notes, text)
		}
	}
	for _, change := range result.changes.With(apply.LeftAlone) {
		notes = append(notes, change.Subject.String()+" was not created by this operator and stays unchanged")
	}
	available.Message = strings.Join(notes, "\n")
}

// stableGeneration reads the stable generation from the status. It returns 0 if the status is about a DaemonSet that was deleted and recreated.
func (c conditioner) stableGeneration(cr *operatorv1.ClusterCSIDriver, daemonSet *appsv1.DaemonSet) int64 {
	if entry := c.ownGeneration(cr.Status.Generations); entry != nil && daemonSet != nil && entry.Hash == string(daemonSet.UID) {
		return entry.LastGeneration
	}
	return 0
}

// ownGeneration returns the entry of the driver's DaemonSet in status.generations. It returns nil if there is no such entry.
func (c conditioner) ownGeneration(entries []operatorv1.GenerationStatus) *operatorv1.GenerationStatus {
	for i, entry := range entries {
		if entry.Group == appsv1.GroupName && entry.Resource == "daemonsets" &&
			entry.Namespace == c.namespace && entry.Name == c.driver.DaemonSet {
			return &entries[i]
		}
	}
	return nil
}
