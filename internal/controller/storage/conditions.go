package storage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The condition types in the Storage, without a suffix such as Degraded. Each driver has the first five of its own: their full types begin with the
// driver's Entry.Condition.
const (
	crConditions         = "CSIDriverOperatorCR"
	deploymentConditions = "CSIDriverOperatorDeployment"
	staticConditions     = "CSIDriverOperatorStaticController"
	olmConditions        = "OLMOperatorRemoval"
	removalConditions    = "CSIDriverOperatorRemoval"
	managementState      = "ManagementState"
	starter              = "CSIDriverStarter"
	defaultClass         = "DefaultStorageClassController"
)

// Reasons of conditions. Tools read these reasons.
const (
	waitForOperator  = "WaitForOperator"
	driverDisabled   = "DriverDisabled"
	thirdPartyReason = "ForeignCSIDriver"
	olmReason        = "RemovingOLMOperator"
	noDriverReason   = "UnsupportedPlatform"
	volumesReason    = "VolumesExist"
	unmanagedReason  = "Unmanaged"
	removingReason   = "Removing"
)

// settleTime is how long an External operator may take to report after its Deployment is rolled out. Until then, the operator's last report may be
// about the old version.
const settleTime = 30 * time.Second

// ownTypes returns all condition types that this program can write.
func ownTypes(entries []catalogue.Entry) map[string]bool {
	types := map[string]bool{}
	add := func(prefix string, kinds ...string) {
		for _, kind := range kinds {
			types[prefix+kind] = true
		}
	}
	add(managementState, status.Degraded)
	add(starter, status.Degraded, status.Upgradeable)
	add(selinuxReadiness, status.Upgradeable)
	add(defaultClass, status.Available, status.Progressing, status.Degraded)
	for _, entry := range entries {
		add(entry.Condition+crConditions, status.Available, status.Progressing, status.Degraded, status.Upgradeable)
		add(entry.Condition+deploymentConditions, status.Progressing, status.Degraded)
		add(entry.Condition+staticConditions, status.Degraded)
		add(entry.Condition+olmConditions, status.Available, status.Progressing, status.Degraded)
		add(entry.Condition+removalConditions, status.Progressing, status.Degraded)
	}
	return types
}

// conditionsOf returns the conditions of one catalogue entry, and the delay until the next reconcile.
func (m *memory) conditionsOf(w *seen, done *result) ([]operatorv1.OperatorCondition, time.Duration) {
	report := &status.Statement{}
	if done.removingOLM {
		m.reportOLM(report, w, done)
	} else {
		m.reportDriver(report, w, done)
	}
	return report.Conditions, report.Again
}

// reportOLM reports the removal of the operator that OLM installed. During the removal, the driver keeps running, so reportOLM does not wait for a
// report of the driver.
func (m *memory) reportOLM(report *status.Statement, w *seen, done *result) {
	prefix, copied := done.entry.Condition+olmConditions, done.entry.Condition+crConditions
	condition, again := m.failures.Degraded(prefix, done.olmErr)
	message := cmp.Or(done.olmRemoval.Message, fmt.Sprintf("removing the operator of %s that OLM installed", done.entry.Title))
	report.Add(again, condition,
		status.Condition(prefix+status.Available, true, olmReason, ""),
		status.Condition(prefix+status.Progressing, true, olmReason, message),
		status.Condition(done.entry.Condition+staticConditions+status.Degraded, false, "", ""))
	report.Conditions, again = m.waits.Degrade(report.Conditions, prefix, message, message, m.previous(w))
	report.RequeueAfter(again)
	copies, again := m.crConditions(w, done)
	report.Add(again, copies...)
	if reported := status.Find(copies, copied+status.Available); reported != nil && reported.Reason == waitForOperator {
		report.Replace(status.Condition(copied+status.Available, true, olmReason, ""))
		report.Replace(status.Condition(copied+status.Progressing, false, olmReason, ""))
	}
}

// reportDriver reports on the operator of a driver. It also copies the conditions that this operator reports in the ClusterCSIDriver.
func (m *memory) reportDriver(report *status.Statement, w *seen, done *result) {
	static := done.entry.Condition + staticConditions
	condition, again := m.failures.Degraded(static, errors.Join(done.err, done.changes.With(apply.Failed, apply.Terminating).Err()))
	report.Add(again, condition)
	if done.thirdParty != "" {
		report.Replace(status.Condition(static+status.Degraded, true, thirdPartyReason, done.thirdParty))
		return
	}
	if done.removal.message != "" {
		removal, again := m.removalConditions(done)
		report.Add(again, removal...)
		if !done.removal.waits {
			// A driver that is being removed must not make storage unavailable.
			return
		}
	}
	rollout, again := m.deploymentConditions(done)
	report.Add(again, rollout...)
	copies, again := m.crConditions(w, done)
	report.Add(again, copies...)
}

// removalConditions reports the progress of a driver's removal.
func (m *memory) removalConditions(done *result) ([]operatorv1.OperatorCondition, time.Duration) {
	prefix := done.entry.Condition + removalConditions
	if done.removal.waits {
		// An administrator may let the removal wait for ever, so the wait does not count as progressing.
		return []operatorv1.OperatorCondition{
			status.Condition(prefix+status.Progressing, false, done.removal.reason, done.removal.message),
			status.Condition(prefix+status.Degraded, false, "", ""),
		}, 0
	}
	stuck, again := m.rollouts.Stuck(prefix, true, status.Work{Done: -int64(done.removal.left)})
	degraded := status.Condition(prefix+status.Degraded, false, "", "")
	if stuck {
		text := fmt.Sprintf("the removal has made no progress for %s: %s", status.StuckAfter, done.removal.message)
		degraded = status.Condition(prefix+status.Degraded, true, "RemovalStuck", text)
	}
	return []operatorv1.OperatorCondition{
		status.Condition(prefix+status.Progressing, true, removingReason, fmt.Sprintf("%s, because %s", done.removal.message, done.why)), degraded,
	}, again
}

// deploymentConditions reports on the operator's Deployment. The Deployment does not affect Available, because the driver runs without its operator.
func (m *memory) deploymentConditions(done *result) ([]operatorv1.OperatorCondition, time.Duration) {
	prefix := done.entry.Condition + deploymentConditions
	deployment := done.deployment
	name := fmt.Sprintf("Deployment %s/%s of the operator of %s", catalogue.Namespace, done.entry.Operator, done.entry.Title)
	waits := rollOut(deployment)
	progressing := status.Condition(prefix+status.Progressing, false, "", "")
	if waits != "" {
		progressing = status.Condition(prefix+status.Progressing, true, status.Deploying, name+": "+waits)
	}
	if deployment == nil {
		condition, again := m.failures.Degraded(prefix, nil)
		return []operatorv1.OperatorCondition{progressing, condition}, again
	}
	state := deployment.Status
	pods := int64(state.UpdatedReplicas + state.AvailableReplicas)
	stuck, wait := m.rollouts.Stuck(prefix+string(deployment.UID), waits != "", status.Work{Generation: deployment.Generation, Done: pods})
	var err error
	const hint = "look at its pods and their events"
	switch {
	case failed(deployment) != "":
		err = reconcile.TerminalError(fmt.Errorf("%s: %s: %s", name, failed(deployment), hint))
	case stuck:
		err = reconcile.TerminalError(fmt.Errorf("%s: the roll-out has made no progress for %s: %s: %s", name, status.StuckAfter, waits, hint))
	case waits == "" && state.AvailableReplicas == 0:
		err = fmt.Errorf("%s: no pod is ready: %s", name, hint)
	}
	degraded, again := m.failures.Degraded(prefix, err)
	return []operatorv1.OperatorCondition{progressing, degraded}, status.MinRequeue(wait, again)
}

// rollOut says what the roll-out of an operator waits for. It returns an empty string if the roll-out is complete.
func rollOut(operator *appsv1.Deployment) string { return status.RollOut(operator, "pods", nil) }

// failed returns the failure that a Deployment reports. It returns an empty string if the Deployment reports no failure.
func failed(deployment *appsv1.Deployment) string {
	for _, condition := range deployment.Status.Conditions {
		switch {
		case condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue,
			condition.Type == appsv1.DeploymentProgressing && condition.Reason == "ProgressDeadlineExceeded":
			return condition.Reason + ": " + condition.Message
		}
	}
	return ""
}

// starterConditions reports the problems that prevent decisions about which operators to start, for example an unknown platform. These conditions
// don't block an update of the cluster.
func (m *memory) starterConditions(w *seen, choices []choice) ([]operatorv1.OperatorCondition, time.Duration) {
	var problems []string
	if problem := w.platformProblem(); problem != "" {
		problems = append(problems, problem)
	}
	for _, one := range choices {
		if one.problem != "" {
			problems = append(problems, one.entry.Title+": "+one.problem)
		}
	}
	var err error
	if len(problems) > 0 {
		slices.Sort(problems)
		err = errors.New(strings.Join(slices.Compact(problems), "; "))
	}
	degraded, again := m.failures.Degraded(starter, err)
	if err == nil && w.TLS.Problem != "" {
		degraded = status.Condition(starter+status.Degraded, true, "NotFollowed", w.TLS.Problem)
	}
	return []operatorv1.OperatorCondition{degraded, status.Condition(starter+status.Upgradeable, true, "", "")}, again
}

// managementCondition reports an invalid managementState of the Storage.
func managementCondition(state operatorv1.ManagementState) operatorv1.OperatorCondition {
	const kind = managementState + status.Degraded
	switch state {
	case operatorv1.Managed:
		return status.Condition(kind, false, "", "")
	case operatorv1.Removed:
		return status.Condition(kind, true, "Removed", "the cluster's storage can't be removed; the operator changes nothing while spec.managementState "+
			"of Storage cluster is Removed: set it to Managed, or to Unmanaged to manage storage by hand")
	default:
		return status.Condition(kind, true, "Unknown", fmt.Sprintf("spec.managementState %q of Storage cluster is unknown: the operator changes nothing "+
			"until you set it to Managed, Unmanaged or Removed", state))
	}
}

// noDriver says why this program starts no driver on the platform. It returns an empty string if this program starts a driver.
func noDriver(w *seen, choices []choice) string {
	platform := w.platform()
	if platform == "" {
		return ""
	}
	var why []string
	for _, one := range choices {
		switch {
		case one.decision == wanted:
			return ""
		case one.why != "" && one.entry.Platform == platform:
			why = append(why, one.entry.Title+": "+one.why)
		}
	}
	const hint = "install a CSI driver of your choice"
	if len(why) > 0 {
		return fmt.Sprintf("the operator starts no CSI driver on platform %s (%s): %s", platform, strings.Join(why, "; "), hint)
	}
	return fmt.Sprintf("this release has no CSI driver for platform %s: %s", platform, hint)
}

// patient returns a function that takes the type of a condition. The function reports whether the condition degrades the ClusterOperator only after a
// delay. It returns true for External operators' Degraded conditions, because External operators report each failure at once.
func patient(entries []catalogue.Entry) func(kind string) bool {
	return func(kind string) bool {
		return slices.ContainsFunc(entries, func(entry catalogue.Entry) bool {
			return !entry.Builtin && kind == entry.Condition+crConditions+status.Degraded
		})
	}
}
