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
	live := result.seen.live
	failure := func(prefix string, err error) {
		condition, wait := c.failures.Degraded(prefix, err)
		all = append(all, condition)
		again = status.MinRequeue(again, wait)
	}
	all = append(all, c.managementCondition(cr, result.unwanted))
	failure(configObservation, result.err)
	if result.err == nil {
		all = c.notFollowed(all, cr, result.seen.problems)
	}
	prefix := c.driver.ConditionPrefix
	ends := result.removal.removing || result.removal.removed
	if ends || result.seen.disabled.Reason != "" {
		c.waits.Forget()
	}
	for kind, changes := range c.group(result.changes, ends) {
		failure(prefix+kind, changes.Err())
	}
	if ends {
		all = append(all, c.removalConditions(result)...)
		all, wait := c.removalStuck(all, result)
		all = c.sum(cr, all)
		if result.removal.removed && result.unwanted.remove {
			// The cluster-storage-operator waits for it.
			all = status.Replace(all, status.Condition(status.Progressing, false, removedReason, result.unwanted.message))
		}
		return all, 0, status.MinRequeue(again, wait)
	}
	if c.driver.Cloud != nil {
		kind := prefix + cloudService + status.Degraded
		condition, wait := result.seen.trouble.Condition(kind, result.seen.disabled.Reason != "", c.failures.Now())
		all, again = append(all, condition), status.MinRequeue(again, wait)
	}
	if c.driver.Disabled != nil {
		all = append(all, c.disabledCondition(result.seen.disabled))
	}
	if why := result.seen.disabled; why.Reason != "" {
		return c.sum(cr, append(all, c.disabledServices(why.Message)...)), 0, again
	}
	services, stable := c.serviceConditions(cr, result)
	again = status.MinRequeue(again, live.again)
	if live.predecessors {
		// Its generations are a predecessor's, and its Deployment is not watched.
		stable, again = 0, status.MinRequeue(again, status.MostPause)
	}
	all = append(all, services...)
	all, wait := c.serviceFailures(all, cr, result)
	again = status.MinRequeue(again, wait)
	credentials, wait := c.credentialConditions(cr, result)
	all = append(all, credentials...)
	return c.explain(c.sum(cr, all), result), stable, status.MinRequeue(again, wait)
}

// sum adds the sums. What other controllers report in the same object counts, and what predecessors have left there does not.
func (c conditioner) sum(cr *operatorv1.ClusterCSIDriver, all []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	return status.Sum(all, slices.DeleteFunc(slices.Clone(cr.Status.Conditions), func(one operatorv1.OperatorCondition) bool {
		return c.isOwn(one.Type) || slices.Contains(c.driver.LegacyConditions, one.Type)
	}))
}

// notFollowed says what of the configuration counts for nothing. Settings that are not the driver's harm nobody, and other operators ignore
// them: they are reported, and do not degrade.
func (c conditioner) notFollowed(
	all []operatorv1.OperatorCondition, cr *operatorv1.ClusterCSIDriver, problems []string,
) []operatorv1.OperatorCondition {
	degraded, messages := len(problems) > 0, problems
	if text := unused(c.driver, cr.Spec.DriverConfig); text != "" {
		messages = append(slices.Clone(problems), text)
	}
	if len(messages) == 0 {
		return all
	}
	return status.Replace(all, status.Condition(configObservation+status.Degraded, degraded, "NotFollowed", strings.Join(messages, "; ")))
}

// removalStuck turns a removal that makes no progress into a failure: it waits for something that does not go by itself.
func (c conditioner) removalStuck(all []operatorv1.OperatorCondition, result outcome) ([]operatorv1.OperatorCondition, time.Duration) {
	stuck, again := c.rollouts.Stuck("removal", result.removal.removing && result.err == nil, 0, 0, -int64(result.removal.remaining))
	if stuck {
		all = status.Replace(all, status.Condition(c.driver.ConditionPrefix+nodeService+status.Degraded, true, "RemovalStuck",
			fmt.Sprintf("no progress for %s: %s", status.StuckAfter, result.removal.waiting)))
	}
	return all, again
}

// disabledCondition says whether nothing of the driver is there, and why. By the end of its type the cluster-storage-operator knows it.
func (c conditioner) disabledCondition(why derived.Absence) operatorv1.OperatorCondition {
	return status.Condition(c.driver.ConditionPrefix+derived.Disabled, why.Reason != "", why.Reason, why.Message)
}

// disabledServices are those of a driver that was never installed: the cluster lacks nothing.
func (c conditioner) disabledServices(why string) []operatorv1.OperatorCondition {
	var all []operatorv1.OperatorCondition
	for _, service := range []string{controllerService, nodeService} {
		prefix := c.driver.ConditionPrefix + service
		available := status.Condition(prefix+status.Available, true, derived.Disabled, why)
		all = append(all, available, status.Condition(prefix+status.Progressing, false, "", ""))
	}
	return all
}

func (c conditioner) serviceConditions(
	cr *operatorv1.ClusterCSIDriver, result outcome,
) (all []operatorv1.OperatorCondition, stable int64) {
	live := result.seen.live
	controller, onNodes := c.driver.ConditionPrefix+controllerService, c.driver.ConditionPrefix+nodeService
	all = status.Deployment(controller, live.deployment, live.unready[driver.Controller])
	found, stable := status.DaemonSet(onNodes, live.daemonSet, c.stableGeneration(cr, live.daemonSet), live.unready[driver.Node])
	all = append(all, found...)
	for workload, message := range result.holds() {
		prefix, absent := onNodes, live.daemonSet == nil
		if workload == driver.Controller {
			prefix, absent = controller, live.deployment == nil
		}
		all = status.Replace(all, status.Condition(prefix+status.Progressing, true, "Waiting", message))
		if absent {
			all = status.Replace(all, status.Condition(prefix+status.Available, false, "Waiting", message))
		}
	}
	if message := result.moved.Message; message != "" {
		all = status.Replace(all, status.Condition(onNodes+status.Progressing, true, migration.TakingOver, message))
		if result.moved.Serving > 0 {
			// Pods of the predecessor count.
			all = status.Replace(all, status.Condition(onNodes+status.Available, true, "", ""))
		}
	}
	if rolled := result.rolled; rolled.Message != "" {
		all = status.Replace(all, status.Condition(onNodes+status.Progressing, true, rolled.Reason, rolled.Message))
	}
	if result.removal.inUse != "" {
		all = status.Replace(all, status.Condition(onNodes+status.Progressing, true, inUseReason, result.removal.inUse))
	}
	return all, stable
}

// serviceFailures degrades services beyond what failed to be applied. It returns when to look again.
func (c conditioner) serviceFailures(
	all []operatorv1.OperatorCondition, cr *operatorv1.ClusterCSIDriver, result outcome,
) ([]operatorv1.OperatorCondition, time.Duration) {
	kind, message := c.driver.ConditionPrefix+nodeService+status.Degraded, result.seen.live.unregistered
	if one := status.Find(all, kind); message != "" && one != nil && one.Status == operatorv1.ConditionFalse {
		all = status.Replace(all, status.Condition(kind, true, "NotRegistered", message))
	}
	all = c.canary(all, result)
	var stuck time.Duration
	if cr.Spec.ManagementState != operatorv1.Unmanaged {
		// What nobody manages, nobody goes on with.
		all, stuck = c.stuck(all, result)
	}
	all, overdue := c.overdue(all, cr, result)
	return all, status.MinRequeue(stuck, overdue)
}

// stuck turns a roll-out that makes no progress into a failure of its workload, and of nothing else.
func (c conditioner) stuck(all []operatorv1.OperatorCondition, result outcome) ([]operatorv1.OperatorCondition, time.Duration) {
	live := result.seen.live
	var again time.Duration
	look := func(service string, workload metav1.ObjectMeta, observed int64, total, done int32) {
		prefix := c.driver.ConditionPrefix + service
		progressing := status.Find(all, prefix+status.Progressing)
		degraded := status.Find(all, prefix+status.Degraded)
		// A migration that waits for pods which use volumes is not stuck, but one that waits for its own is.
		underWay := progressing.Status == operatorv1.ConditionTrue &&
			(progressing.Reason == status.Deploying || isReplacing(progressing.Reason) || (progressing.Reason == migration.TakingOver && result.moved.Stalled))
		if observed < workload.Generation {
			// The numbers are still those of the last roll-out.
			done = 0
		}
		stuck, wait := c.rollouts.Stuck(service+string(workload.UID), underWay, workload.Generation, int64(total), int64(done))
		again = status.MinRequeue(again, wait)
		if stuck && degraded.Status == operatorv1.ConditionFalse {
			all = status.Replace(all, status.Condition(prefix+status.Degraded, true, "RolloutStuck",
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
	return all, again
}

// overdue degrades a service that has been held for long: a person has to end that. Where Secrets are missing, their own conditions say it. A driver
// that was never installed may wait for its cloud for ever.
func (c conditioner) overdue(
	all []operatorv1.OperatorCondition, cr *operatorv1.ClusterCSIDriver, result outcome,
) ([]operatorv1.OperatorCondition, time.Duration) {
	if result.err != nil {
		// The trip may have ended before it knew all holds. The clocks go on.
		for _, service := range []string{controllerService, nodeService} {
			all = status.KeepOverdue(all, c.driver.ConditionPrefix+service, cr.Status.Conditions)
		}
		return all, 0
	}
	holds := result.holds()
	missing, _ := result.seen.live.credentials.Missing(c.driver, c.namespace)
	if missing != "" && !result.seen.migration.Blocked() || result.seen.undecided || cr.Spec.ManagementState == operatorv1.Unmanaged {
		holds = nil
	}
	var again time.Duration
	for workload, service := range map[driver.Workload]string{driver.Controller: controllerService, driver.Node: nodeService} {
		var wait time.Duration
		all, wait = c.waits.Degrade(all, c.driver.ConditionPrefix+service, holds[workload], holds[workload], cr.Status.Conditions)
		again = status.MinRequeue(again, wait)
	}
	return all, again
}

// isReplacing tells whether a roll-out of node pods is under way, and waits for nobody but these.
func isReplacing(reason string) bool {
	return reason == nodes.ReplacingPods || reason == nodes.TryingCanary
}

// canary turns a new node pod that does not work into a failure: the roll-out ends there.
func (c conditioner) canary(all []operatorv1.OperatorCondition, result outcome) []operatorv1.OperatorCondition {
	kind := c.driver.ConditionPrefix + nodeService + status.Degraded
	if degraded := status.Find(all, kind); result.rolled.Failed == "" || degraded.Status == operatorv1.ConditionTrue {
		return all
	}
	return status.Replace(all, status.Condition(kind, true, "CanaryFailed", result.rolled.Failed))
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
func (c conditioner) explain(conditions []operatorv1.OperatorCondition, result outcome) []operatorv1.OperatorCondition {
	available := status.Find(conditions, status.Available)
	if available.Status != operatorv1.ConditionTrue {
		return conditions
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
	return conditions
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
