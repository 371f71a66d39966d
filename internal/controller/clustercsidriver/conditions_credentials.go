package clustercsidriver

import (
	"errors"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// credentialConditions reports on the Secret of each CredentialsRequest, whether or not the request exists. After an error, the conditions keep their
// last state.
func (c conditioner) credentialConditions(
	cr *operatorv1.ClusterCSIDriver, result outcome,
) (all []operatorv1.OperatorCondition, again time.Duration) {
	if result.err != nil {
		for _, credentials := range c.driver.Credentials {
			prefix := credentials.Condition
			all = append(all, status.Among(cr.Status.Conditions, prefix+status.Available, prefix+status.Progressing, prefix+status.Degraded)...)
		}
		return all, 0
	}
	for _, credentials := range c.driver.Credentials {
		err := result.changes.Where(func(change apply.Change) bool { return change.Subject.Name == credentials.Request }).Err()
		degraded, _ := c.failures.Degraded(credentials.Condition, err)
		available, progressing := result.seen.live.credentials.State(result.seen.config, credentials, result.seen.live.predecessors)
		if result.seen.migration.Blocked() && progressing.Status == operatorv1.ConditionTrue {
			// The operator has not requested any credentials, so it does not wait for credentials.
			progressing = status.Condition(progressing.Type, false, "", "")
			available.Message = result.seen.migration.Blocker + "; until then, the operator requests no credentials"
		}
		wasAvailable := isTrue(cr.Status.Conditions, available.Type)
		absent, wait := c.failures.Degraded(available.Type, missing(available, progressing))
		if wasAvailable && absent.Status != operatorv1.ConditionTrue {
			// A rotation recreates the Secret. The pods have already read the previous Secret, so the credentials stay available.
			available.Status = operatorv1.ConditionTrue
		}
		own, overdue := c.waits.Degrade([]operatorv1.OperatorCondition{available, progressing, degraded}, credentials.Condition,
			waitsFor(cr, result, available, progressing), available.Message+result.seen.live.credentials.Remedy(result.seen.config, credentials),
			cr.Status.Conditions)
		all, again = append(all, own...), status.MinRequeue(again, wait, overdue)
	}
	return all, again
}

// waitsFor returns the reason of the wait for credentials. The reason is empty if nothing waits for credentials, or if another wait comes first. A
// new reason starts a new wait, and a new message does not, because each attempt of the cloud-credential-operator can change the message.
func waitsFor(cr *operatorv1.ClusterCSIDriver, result outcome, available, progressing operatorv1.OperatorCondition) string {
	switch {
	case cr.Spec.ManagementState == operatorv1.Unmanaged, result.seen.migration.Blocked():
		return ""
	case available.Status != operatorv1.ConditionTrue, progressing.Status == operatorv1.ConditionTrue, available.Reason == status.ActionRequired:
		return available.Reason
	default:
		return ""
	}
}

// missing returns an error if the credentials are unavailable while the operator waits for them. In all other cases, it returns nil.
func missing(available, progressing operatorv1.OperatorCondition) error {
	if available.Status == operatorv1.ConditionTrue || progressing.Status != operatorv1.ConditionTrue {
		return nil
	}
	return errors.New(available.Message)
}
