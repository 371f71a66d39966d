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

// The condition types, to be read with Driver.ConditionPrefix in front where a type starts with Driver. They are those
// that existing tools read; each ends in Available, Progressing or Degraded.
const (
	managementState     = "ManagementState"
	configObservation   = "ConfigObservation"
	controlPlaneObjects = "DriverControlPlaneStaticResourcesController"
	guestObjects        = "DriverGuestStaticResourcesController"
	controllerService   = "DriverControllerServiceController"
	nodeService         = "DriverNodeServiceController"
)

// conditioner turns what was seen and done into conditions. It reads nothing, and its only memory are the trackers, which have a clock.
type conditioner struct {
	driver    driver.Driver
	namespace string
	kinds     map[schema.GroupKind]bool
	failures  *status.Failures
	rollouts  *status.Rollouts
	waits     *status.Waits
}

// conditions are all conditions of the ClusterCSIDriver, the newest generation of the DaemonSet that was once on all
// nodes, and when to look again.
func (c conditioner) conditions(
	cr *operatorv1.ClusterCSIDriver, result outcome,
) (all []operatorv1.OperatorCondition, stable int64, again time.Duration) {
	ends, disabled := result.removal.removing || result.removal.removed, result.seen.disabled.Reason != ""
	if ends || disabled {
		c.waits.Forget()
	}
	said := &status.Statement{}
	c.reportTrip(said, cr, result, ends)
	switch {
	case ends:
		c.reportRemoval(said, cr, result)
	case disabled:
		c.reportDisabled(said, cr, result)
	default:
		stable = c.reportRunning(said, cr, result)
	}
	return said.Conditions, stable, said.Again
}

// reportTrip says what was asked for, and what failed.
func (c conditioner) reportTrip(said *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome, ends bool) {
	failure := func(prefix string, err error) {
		condition, again := c.failures.Degraded(prefix, err)
		said.Add(again, condition)
	}
	said.Add(0, c.managementCondition(cr, result.unwanted))
	failure(configObservation, result.err)
	if result.err == nil {
		c.notFollowed(said, cr, result.seen.problems)
	}
	for kind, changes := range c.group(result.changes, ends) {
		failure(c.driver.ConditionPrefix+kind, changes.Err())
	}
}

// reportRemoval says how far a driver is removed.
func (c conditioner) reportRemoval(said *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) {
	said.Add(0, c.removalConditions(result)...)
	c.removalStuck(said, result)
	c.sum(said, cr)
	if result.removal.removed && result.unwanted.remove {
		// The cluster-storage-operator waits for it.
		said.Replace(status.Condition(status.Progressing, false, removedReason, result.unwanted.message))
	}
}

// reportDisabled says why a driver was never installed: the cluster lacks nothing.
func (c conditioner) reportDisabled(said *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) {
	c.reportCloud(said, result)
	for _, service := range []string{controllerService, nodeService} {
		prefix := c.driver.ConditionPrefix + service
		said.Add(0, status.Condition(prefix+status.Available, true, derived.Disabled, result.seen.disabled.Message),
			status.Condition(prefix+status.Progressing, false, "", ""))
	}
	c.sum(said, cr)
}

// reportRunning says how the driver works, and returns the newest generation of its DaemonSet that was once on all nodes.
func (c conditioner) reportRunning(said *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) (stable int64) {
	c.reportCloud(said, result)
	stable = c.reportServices(said, cr, result)
	said.LookAfter(result.seen.live.again)
	if result.seen.live.predecessors {
		// Its generations are a predecessor's, and its Deployment is not watched.
		stable = 0
		said.LookAfter(status.MostPause)
	}
	c.degradeServices(said, cr, result)
	credentials, again := c.credentialConditions(cr, result)
	said.Add(again, credentials...)
	c.sum(said, cr)
	c.explain(said.Conditions, result)
	return stable
}

// reportCloud says whether the cloud answers, and whether the driver is not installed because of it. By the end of the type DriverDisabled the
// cluster-storage-operator knows such a condition.
func (c conditioner) reportCloud(said *status.Statement, result outcome) {
	prefix, why := c.driver.ConditionPrefix, result.seen.disabled
	if c.driver.Cloud != nil {
		condition, again := result.seen.trouble.Condition(prefix+cloudService+status.Degraded, why.Reason != "", c.failures.Now())
		said.Add(again, condition)
	}
	if c.driver.Disabled != nil {
		said.Add(0, status.Condition(prefix+derived.Disabled, why.Reason != "", why.Reason, why.Message))
	}
}

// sum adds the sums. What other controllers report in the same object counts, and what predecessors have left there does not.
func (c conditioner) sum(said *status.Statement, cr *operatorv1.ClusterCSIDriver) {
	said.Conditions = status.Sum(said.Conditions, slices.DeleteFunc(slices.Clone(cr.Status.Conditions), func(one operatorv1.OperatorCondition) bool {
		return c.isOwn(one.Type) || slices.Contains(c.driver.LegacyConditions, one.Type)
	}))
}

// notFollowed says what of the configuration counts for nothing. Settings that are not the driver's harm nobody, and other operators ignore
// them: they are reported, and do not degrade.
func (c conditioner) notFollowed(said *status.Statement, cr *operatorv1.ClusterCSIDriver, problems []string) {
	degraded, messages := len(problems) > 0, problems
	if text := unused(c.driver, cr.Spec.DriverConfig); text != "" {
		messages = append(slices.Clone(problems), text)
	}
	if len(messages) > 0 {
		said.Replace(status.Condition(configObservation+status.Degraded, degraded, "NotFollowed", strings.Join(messages, "; ")))
	}
}

// removalStuck turns a removal that makes no progress into a failure: it waits for something that does not go by itself.
func (c conditioner) removalStuck(said *status.Statement, result outcome) {
	stuck, again := c.rollouts.Stuck("removal", result.removal.removing && result.err == nil, 0, 0, -int64(result.removal.remaining))
	said.LookAfter(again)
	if stuck {
		said.Replace(status.Condition(c.driver.ConditionPrefix+nodeService+status.Degraded, true, "RemovalStuck",
			fmt.Sprintf("no progress for %s: %s", status.StuckAfter, result.removal.waiting)))
	}
}

// reportServices says how far the two workloads are rolled out, and what they wait for. It returns the newest generation of the DaemonSet that was
// once on all nodes.
func (c conditioner) reportServices(said *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) (stable int64) {
	live := result.live()
	controller, onNodes := c.driver.ConditionPrefix+controllerService, c.driver.ConditionPrefix+nodeService
	said.Add(0, status.Deployment(controller, live.deployment, live.unready[driver.Controller])...)
	found, stable := status.DaemonSet(onNodes, live.daemonSet, c.stableGeneration(cr, live.daemonSet), live.unready[driver.Node])
	said.Add(0, found...)
	for workload, message := range result.holds() {
		prefix, absent := onNodes, live.daemonSet == nil
		if workload == driver.Controller {
			prefix, absent = controller, live.deployment == nil
		}
		said.Replace(status.Condition(prefix+status.Progressing, true, "Waiting", message))
		if absent {
			said.Replace(status.Condition(prefix+status.Available, false, "Waiting", message))
		}
	}
	if message := result.moved.Message; message != "" {
		said.Replace(status.Condition(onNodes+status.Progressing, true, migration.TakingOver, message))
		if result.moved.Serving > 0 {
			// Pods of the predecessor count.
			said.Replace(status.Condition(onNodes+status.Available, true, "", ""))
		}
	}
	if rolled := result.rolled; rolled.Message != "" {
		said.Replace(status.Condition(onNodes+status.Progressing, true, rolled.Reason, rolled.Message))
	}
	if result.removal.inUse != "" {
		said.Replace(status.Condition(onNodes+status.Progressing, true, inUseReason, result.removal.inUse))
	}
	return stable
}

// degradeServices degrades services beyond what failed to be applied.
func (c conditioner) degradeServices(said *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) {
	kind := c.driver.ConditionPrefix + nodeService + status.Degraded
	if message := result.seen.live.unregistered; message != "" {
		said.Degrade(status.Condition(kind, true, "NotRegistered", message))
	}
	if message := result.rolled.Failed; message != "" {
		// The roll-out ends with the new node pod that does not work.
		said.Degrade(status.Condition(kind, true, "CanaryFailed", message))
	}
	if cr.Spec.ManagementState != operatorv1.Unmanaged {
		// Nothing goes on with an unmanaged driver.
		c.stuck(said, result)
	}
	c.overdue(said, cr, result)
}

// stuck turns a roll-out that makes no progress into a failure of its workload, and of nothing else.
func (c conditioner) stuck(said *status.Statement, result outcome) {
	live := result.live()
	look := func(service string, workload metav1.ObjectMeta, observed int64, total, done int32) {
		prefix := c.driver.ConditionPrefix + service
		progressing := status.Find(said.Conditions, prefix+status.Progressing)
		// A migration that waits for pods which use volumes is not stuck, but one that waits for its own is.
		underWay := progressing.Status == operatorv1.ConditionTrue &&
			(progressing.Reason == status.Deploying || isReplacing(progressing.Reason) || (progressing.Reason == migration.TakingOver && result.moved.Stalled))
		if observed < workload.Generation {
			// The numbers are still those of the last roll-out.
			done = 0
		}
		stuck, wait := c.rollouts.Stuck(service+string(workload.UID), underWay, workload.Generation, int64(total), int64(done))
		said.LookAfter(wait)
		if stuck {
			said.Degrade(status.Condition(prefix+status.Degraded, true, "RolloutStuck",
				fmt.Sprintf("no progress for %s: %s; look at the pods and their events in namespace %s",
					status.StuckAfter, progressing.Message, c.namespace)))
		}
	}
	if deployment := live.deployment; deployment != nil {
		state := deployment.Status
		look(controllerService, deployment.ObjectMeta, state.ObservedGeneration, 0, state.UpdatedReplicas+state.AvailableReplicas)
	}
	if daemonSet := live.daemonSet; daemonSet != nil {
		state := daemonSet.Status
		// A node is done when its pod is updated and when it is available: it counts twice.
		done := state.UpdatedNumberScheduled + state.NumberAvailable
		look(nodeService, daemonSet.ObjectMeta, state.ObservedGeneration, 2*state.DesiredNumberScheduled, done)
	}
}

// overdue degrades a service that has been held for long: a person has to end that. Where Secrets are missing, their own conditions say it. A driver
// that was never installed may wait for its cloud for ever.
func (c conditioner) overdue(said *status.Statement, cr *operatorv1.ClusterCSIDriver, result outcome) {
	if result.err != nil {
		// The trip may have ended before it knew all holds. The clocks go on.
		for _, service := range []string{controllerService, nodeService} {
			said.Conditions = status.KeepOverdue(said.Conditions, c.driver.ConditionPrefix+service, cr.Status.Conditions)
		}
		return
	}
	holds := result.holds()
	missing, _ := result.seen.live.credentials.Missing(c.driver, c.namespace)
	if missing != "" && !result.seen.migration.Blocked() || result.seen.undecided || cr.Spec.ManagementState == operatorv1.Unmanaged {
		holds = nil
	}
	for workload, service := range map[driver.Workload]string{driver.Controller: controllerService, driver.Node: nodeService} {
		all, again := c.waits.Degrade(said.Conditions, c.driver.ConditionPrefix+service, holds[workload], holds[workload], cr.Status.Conditions)
		said.Conditions = all
		said.LookAfter(again)
	}
}

// isReplacing tells whether a roll-out of node pods is under way, and waits for nobody but these.
func isReplacing(reason string) bool {
	return reason == nodes.ReplacingPods || reason == nodes.TryingCanary
}

// group sorts changes by the condition that reports on them. Every condition is there, so that none goes stale. CredentialsRequests have
// conditions of their own, unless the driver goes.
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
		return status.Condition(kind, false, "Unmanaged", "the operator touches nothing while spec.managementState is Unmanaged")
	case operatorv1.Removed:
		if c.driver.Removable || c.driver.RemovedByState {
			return status.Condition(kind, false, removedReason, "")
		}
		return status.Condition(kind, true, "Removed", c.driver.Name+" is part of the cluster and can't be removed: set "+
			"spec.managementState to Managed, or to Unmanaged to change the driver by hand")
	default:
		return status.Condition(kind, true, "Unknown", fmt.Sprintf("spec.managementState %q is not known, nothing is "+
			"changed until it is Managed, Unmanaged or Removed", state))
	}
}

// removalConditions say how far a removal is.
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
		// That is what the administrator wants: the cluster-storage-operator must not take it for a failure.
		text := "the driver is removed, as spec.managementState asks; set it to Managed to install it"
		if left := result.removal.left; left != "" {
			text += ". Left in the cloud: " + left
		}
		all = append(all, status.Condition(c.driver.ConditionPrefix+derived.Disabled, true, removedReason, text))
	}
	return all
}

// explain adds to Available which pods are missing all the same, what this cluster can't have, and what was left alone
// because it belongs to somebody else.
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
		notes = append(notes, "The driver is still that of a predecessor: set spec.managementState to Managed to migrate it")
	}
	for _, text := range []string{leftOut(c.driver, c.kinds), result.seen.pending} {
		if text != "" {
			notes = append(notes, text)
		}
	}
	for _, change := range result.changes.With(apply.LeftAlone) {
		notes = append(notes, change.Subject.String()+" was made by somebody else and is left as it is")
	}
	available.Message = strings.Join(notes, "\n")
}

// stableGeneration reads what was remembered of this very DaemonSet; one that was made again starts anew.
func (c conditioner) stableGeneration(cr *operatorv1.ClusterCSIDriver, daemonSet *appsv1.DaemonSet) int64 {
	if entry := c.ownGeneration(cr.Status.Generations); entry != nil && daemonSet != nil && entry.Hash == string(daemonSet.UID) {
		return entry.LastGeneration
	}
	return 0
}

// ownGeneration finds the entry of the driver's DaemonSet; other operators may have left others.
func (c conditioner) ownGeneration(entries []operatorv1.GenerationStatus) *operatorv1.GenerationStatus {
	for i, entry := range entries {
		if entry.Group == appsv1.GroupName && entry.Resource == "daemonsets" &&
			entry.Namespace == c.namespace && entry.Name == c.driver.DaemonSet {
			return &entries[i]
		}
	}
	return nil
}
