package storage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// past has facts about a driver from earlier reports.
type past struct {
	// available is the last condition Available. It is nil if there was no such condition.
	available *operatorv1.OperatorCondition
	// once is true if the driver has been available before.
	once bool
}

// crConditions copies the conditions of the ClusterCSIDriver.
func (m *memory) crConditions(w *seen, done *result) ([]operatorv1.OperatorCondition, time.Duration) {
	prefix := done.entry.Condition + crConditions
	before := past{available: status.Find(m.previous(w), prefix+status.Available)}
	before.once = m.once[done.entry.Name] || wasAvailable(before.available)
	all := copied(done, before)
	if wasAvailable(status.Find(all, prefix+status.Available)) {
		m.once[done.entry.Name] = true
	}
	waits, again := waitsForVersion(w, done)
	progressing := status.Find(all, prefix+status.Progressing)
	if waits != "" && progressing.Status == operatorv1.ConditionFalse && !needsAction(done) {
		all = status.Replace(all, status.Condition(prefix+status.Progressing, true, status.Deploying, waits))
	}
	cause := ""
	if progressing.Reason == waitForOperator && !done.removingOLM {
		cause = waiting(done)
	}
	all, overdue := m.waits.Degrade(all, prefix, cause, cause+". "+remedy(done), m.previous(w))
	return all, status.MinRequeue(again, overdue)
}

// needsAction reports whether the driver's operator waits for a person's action. Until that action, the driver can't reach a new version either.
func needsAction(done *result) bool {
	return done.driver != nil && slices.ContainsFunc(done.driver.Status.Conditions, func(condition operatorv1.OperatorCondition) bool {
		return status.IsActionRequired(&condition)
	})
}

// wasAvailable reports whether a condition Available means a driver that works. It returns false for a driver that is disabled, or that has not
// reported.
func wasAvailable(condition *operatorv1.OperatorCondition) bool {
	return condition != nil && condition.Status == operatorv1.ConditionTrue &&
		condition.Reason != driverDisabled && condition.Reason != waitForOperator
}

// copied sums up the conditions of a ClusterCSIDriver.
func copied(done *result, before past) []operatorv1.OperatorCondition {
	prefix, about := done.entry.Condition+crConditions, "ClusterCSIDriver "+done.entry.Name
	var have []operatorv1.OperatorCondition
	if done.driver != nil {
		have = done.driver.Status.Conditions
	}
	var all []operatorv1.OperatorCondition
	for _, kind := range status.Sums() {
		union := status.UnionOf(kind, have)
		condition := operatorv1.OperatorCondition{Type: prefix + kind, Status: union.Status, Reason: union.Reason(), Message: union.Message()}
		if condition.Message != "" {
			condition.Message = about + ": " + condition.Message
		}
		all = append(all, condition)
	}
	silent := !status.UnionOf(status.Available, have).Found
	off := disabled(done)
	switch {
	case off != nil && (!before.once || isRemovalRequested(done, off)):
		text := fmt.Sprintf("%s is disabled by its operator: %s", done.entry.Title, off.Message)
		all = status.Replace(all, status.Condition(prefix+status.Available, true, driverDisabled, text))
		return status.Replace(all, status.Condition(prefix+status.Progressing, false, driverDisabled, ""))
	case off != nil:
		// The reason DriverDisabled alone would hide that the driver has failed.
		text := fmt.Sprintf("%s: the driver was available before, but its operator now reports %s: %s", about, off.Type, off.Message)
		all = status.Replace(all, status.Condition(prefix+status.Degraded, true, driverDisabled, text))
	}
	if !silent {
		return all
	}
	// A driver that was available counts as available until its operator reports otherwise.
	available := status.Condition(prefix+status.Available, before.once, waitForOperator, waiting(done))
	if before.available != nil && before.available.Reason == driverDisabled {
		available = *before.available
	}
	all = status.Replace(all, available)
	if off != nil {
		return all
	}
	return status.Replace(all, status.Condition(prefix+status.Progressing, true, waitForOperator, waiting(done)))
}

// isRemovalRequested reports whether an administrator asked for the removal of the driver. vSphere's operator then removes the driver, and reports
// the driver as disabled (vmware-vsphere-csi-driver-operator 030ff0e, pkg/operator/vspherecontroller/operator_removal.go). The operator of this
// repository keeps reason Removed until it begins to reinstall the driver.
func isRemovalRequested(done *result, off *operatorv1.OperatorCondition) bool {
	return done.driver.Spec.ManagementState == operatorv1.Removed || done.entry.Builtin && off.Reason == removedReason
}

// waiting returns a message about the report that this program waits for.
func waiting(done *result) string {
	if driver := done.driver; driver != nil && driver.DeletionTimestamp != nil {
		return fmt.Sprintf("ClusterCSIDriver %s is being deleted, waiting for finalizers %v; it will be recreated",
			done.entry.Name, driver.Finalizers)
	}
	return fmt.Sprintf("waiting for Deployment %s/%s to report in ClusterCSIDriver %s", catalogue.Namespace, done.entry.Operator, done.entry.Name)
}

// remedy returns the advice about a missing report.
func remedy(done *result) string {
	if driver := done.driver; driver != nil && driver.DeletionTimestamp != nil {
		return "Remove the finalizers of programs that no longer run"
	}
	return fmt.Sprintf("See the logs of its pods: oc -n %s logs deployment/%s", catalogue.Namespace, done.entry.Operator)
}

// disabled finds the condition with which an operator reports that its driver is not needed.
func disabled(done *result) *operatorv1.OperatorCondition {
	if !done.entry.MayBeDisabled || done.driver == nil {
		return nil
	}
	conditions := done.driver.Status.Conditions
	found := slices.IndexFunc(conditions, func(condition operatorv1.OperatorCondition) bool {
		return strings.HasSuffix(condition.Type, "Disabled") && condition.Status == operatorv1.ConditionTrue
	})
	if found < 0 {
		return nil
	}
	return &conditions[found]
}

// waitsForVersion says what is missing, after the roll-out of an operator, until the driver has the release's version. It returns an empty string if
// nothing is missing. It also returns the delay until the next reconcile.
func waitsForVersion(w *seen, done *result) (string, time.Duration) {
	if !done.applied || done.driver == nil || rollOut(done.deployment) != "" {
		return "", 0
	}
	name := "driver " + done.entry.Name
	if done.driver.Spec.ManagementState == operatorv1.Unmanaged {
		// An unmanaged driver does not block the cluster's version.
		return "", 0
	}
	if done.entry.Builtin {
		if at := done.driver.Status.Version; at != w.version {
			return fmt.Sprintf("waiting for %s to reach version %s, it reports %s", name, w.version, cmp.Or(at, "none yet")), 0
		}
		return "", 0
	}
	// OpenShift's cluster-storage-operator reports only one version, which is the version of all operators.
	before := cmp.Or(versionOf(w.clusterOperator, done.entry.Operator), versionOf(w.clusterOperator, status.OperatorVersion))
	wait := settleTime - w.now.Sub(rolledOutAt(done.deployment))
	if before == "" || before == w.version || (wait <= 0 && done.deployment.Status.AvailableReplicas > 0) {
		return "", 0
	}
	// The last report of the operator may still be about the old version.
	return fmt.Sprintf("waiting for the new operator of %s to report", name), max(wait, 0)
}

// reached reports whether a driver and its operator have the release's version.
func reached(w *seen, done *result, conditions []operatorv1.OperatorCondition) bool {
	waits, _ := waitsForVersion(w, done)
	prefix := done.entry.Condition + crConditions
	available, progressing := status.Find(conditions, prefix+status.Available), status.Find(conditions, prefix+status.Progressing)
	switch {
	case !done.applied || done.driver == nil || rollOut(done.deployment) != "" || waits != "":
		return false
	case done.entry.Builtin:
		return true
	default:
		return available != nil && available.Status == operatorv1.ConditionTrue && available.Reason != waitForOperator &&
			progressing != nil && progressing.Status == operatorv1.ConditionFalse
	}
}

// rolledOutAt returns the last update of the Deployment's conditions Progressing or Available. When a Deployment returns to an earlier ReplicaSet,
// only Available changes.
func rolledOutAt(deployment *appsv1.Deployment) time.Time {
	var last time.Time
	for _, condition := range deployment.Status.Conditions {
		isNews := condition.Type == appsv1.DeploymentProgressing || condition.Type == appsv1.DeploymentAvailable
		if isNews && condition.LastUpdateTime.After(last) {
			last = condition.LastUpdateTime.Time
		}
	}
	return last
}

// versionOf returns the version with this name in the ClusterOperator. It returns an empty string if the ClusterOperator has no such version.
func versionOf(operator *configv1.ClusterOperator, name string) string {
	for _, entry := range versionsOf(operator) {
		if entry.Name == name {
			return entry.Version
		}
	}
	return ""
}
