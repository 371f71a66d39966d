package clustercsidriver

import (
	"errors"
	"fmt"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/apply"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/status"
)

// credentialConditions report on each CredentialsRequest, whether it was asked for or not. If it could not be found out
// what is to be asked for, they stay as they are.
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
		available, progressing := c.credentialState(result.seen.config, credentials, result.seen.live)
		if result.seen.migration.Blocked() && progressing.Status == operatorv1.ConditionTrue {
			// Nobody has asked for any.
			progressing = status.Condition(progressing.Type, false, "", "")
			available.Message = "nothing is asked for before the driver is applied"
		}
		wasAvailable := isTrue(cr.Status.Conditions, available.Type)
		absent, wait := c.failures.Degraded(available.Type, missing(available, progressing))
		if wasAvailable && absent.Status != operatorv1.ConditionTrue {
			// Secrets are made anew when they are rotated; the pods have read the old one.
			available.Status = operatorv1.ConditionTrue
		}
		all, again = append(all, available, progressing, degraded), status.MinRequeue(again, wait)
	}
	return all, again
}

// missing is an error while somebody is at work to bring what is not available.
func missing(available, progressing operatorv1.OperatorCondition) error {
	if available.Status == operatorv1.ConditionTrue || progressing.Status != operatorv1.ConditionTrue {
		return nil
	}
	return errors.New(available.Message)
}

// provisioned reports whether the cloud-credential-operator has followed a request as it is now.
func provisioned(request *cloudcredentialv1.CredentialsRequest) bool {
	return request != nil && request.Status.Provisioned && request.Status.LastSyncGeneration == request.Generation
}

func (c conditioner) credentialState(
	cfg driver.Config, credentials driver.Credentials, live live,
) (available, progressing operatorv1.OperatorCondition) {
	secret, found := live.secrets[credentials.Secret]
	request := live.requests[credentials.Request]
	// A predecessor's request is not ours to look at, and we ask for none beside it.
	requested := cfg.Requests(credentials) && (request != nil || !live.predecessors)
	state := func(value bool, reason, message string, waiting bool) (available, progressing operatorv1.OperatorCondition) {
		available = status.Condition(credentials.Condition+status.Available, value, reason, message)
		progressing = status.Condition(credentials.Condition+status.Progressing, waiting, reason, "")
		if waiting {
			progressing.Message = message
		}
		return available, progressing
	}
	switch {
	case found && !credentials.Usable(secret.keys):
		return state(credentials.Optional, "SecretUnusable", fmt.Sprintf("Secret %s/%s has keys [%s], but needs %s",
			c.namespace, credentials.Secret, strings.Join(secret.keys, " "), credentials.WantedKeys()), false)
	case secret.passedThrough && credentials.Optional:
		return state(true, "CredentialsPassedThrough", c.withheld(cfg, credentials), false)
	case requested && !provisioned(request):
		message := fmt.Sprintf("%s: waiting for the cloud-credential-operator to make Secret %s for CredentialsRequest %s/%s",
			mode(cfg, credentials), credentials.Secret, cloudcredentialv1.Namespace, credentials.Request) + problems(request)
		return state(found || credentials.Optional, "CredentialsNotProvisionedYet", message, true)
	case !found && requested:
		return state(credentials.Optional, secretMissing, fmt.Sprintf("%s: Secret %s/%s has gone, waiting for the "+
			"cloud-credential-operator to make it again", mode(cfg, credentials), c.namespace, credentials.Secret), true)
	case !found:
		return c.stateWithoutSecret(cfg, credentials, live, state)
	default:
		return state(true, "", mode(cfg, credentials)+": Secret "+c.namespace+"/"+credentials.Secret+" is there", false)
	}
}

// stateWithoutSecret is that of credentials that nobody was asked for.
func (c conditioner) stateWithoutSecret(
	cfg driver.Config, credentials driver.Credentials, live live,
	state func(value bool, reason, message string, waiting bool) (available, progressing operatorv1.OperatorCondition),
) (available, progressing operatorv1.OperatorCondition) {
	switch {
	case credentials.Optional:
		return state(true, "CredentialsDisabled", c.withoutRequest(cfg, credentials), false)
	case live.predecessors:
		return state(false, secretMissing, fmt.Sprintf("Secret %s/%s is missing; this operator asks for none while spec.managementState is Unmanaged",
			c.namespace, credentials.Secret), false)
	default:
		return state(false, secretMissing, c.withoutRequest(cfg, credentials), false)
	}
}

// secretMissing is the reason where a Secret is not there.
const secretMissing = "SecretMissing"

// mode says where a Secret comes from.
func mode(cfg driver.Config, credentials driver.Credentials) string {
	role := cfg.RoleARNs[credentials.RoleARNVariable]
	switch {
	case credentials.Payload && cfg.CredentialsMode == operatorv1.CloudCredentialsModeDefault:
		return "default mode"
	case !credentials.Payload && !cfg.Kinds[driver.CredentialsRequestKind()]:
		return "no cloud-credential-operator"
	case role != "":
		return "STS with role " + role
	case cfg.CredentialsMode == operatorv1.CloudCredentialsModeManual:
		return "manual mode"
	case cfg.CredentialsMode == operatorv1.CloudCredentialsModeMint:
		return "mint mode"
	case cfg.CredentialsMode == operatorv1.CloudCredentialsModePassthrough:
		return "passthrough mode"
	case cfg.Minting == driver.Mints:
		return "default mode (the cloud-credential-operator makes keys for each request)"
	case cfg.Minting == driver.PassesThrough:
		return "default mode (the cloud-credential-operator passes the cluster's own keys through)"
	default:
		return "default mode (mint or passthrough, as the cluster's own keys allow)"
	}
}

// withheld says why pods are not given a Secret that is there, and what to do.
func (c conditioner) withheld(cfg driver.Config, credentials driver.Credentials) string {
	return fmt.Sprintf("%s: Secret %s/%s holds a copy of the cluster's own keys, as its empty annotation %s shows; the %s pods never get it. "+
		"Delete it where the cloud-credential-operator can make keys, else make it with keys of its own, or set %s to an IAM role in the "+
		"operator's environment; \"%s iam-policy %s\" prints the IAM policy", mode(cfg, credentials), c.namespace, credentials.Secret,
		driver.PolicyAnnotation, credentials.Workload, credentials.RoleARNVariable, c.driver.Operator, credentials.Workload)
}

// withoutRequest says what to do where nobody makes a Secret.
func (c conditioner) withoutRequest(cfg driver.Config, credentials driver.Credentials) string {
	if credentials.Payload {
		return fmt.Sprintf("%s: Secret %s/%s is missing; the %s are not started without it. CredentialsRequest %s/%s, which "+
			"comes with the release, asks the cloud-credential-operator for it: look at its conditions. In manual mode nobody does: make "+
			"the Secret with ccoctl, or by hand with %s", mode(cfg, credentials), c.namespace, credentials.Secret, credentials.Pods(),
			cloudcredentialv1.Namespace, credentials.Request, credentials.WantedKeys())
	}
	pods := fmt.Sprintf("the %s are not started without it", credentials.Pods())
	if credentials.Optional {
		pods = "the driver works without it, except for One Zone volumes in another zone"
	}
	role := ""
	if cfg.Kinds[driver.CredentialsRequestKind()] {
		role = fmt.Sprintf(", or set %s to an IAM role in the operator's environment", credentials.RoleARNVariable)
	}
	return fmt.Sprintf("%s: Secret %s/%s is missing and nobody is asked for it; %s. Make it with %s%s; \"%s iam-policy %s\" prints "+
		"the IAM policy", mode(cfg, credentials), c.namespace, credentials.Secret, pods, credentials.WantedKeys(), role,
		c.driver.Operator, credentials.Workload)
}

// problems are what the cloud-credential-operator says about a request.
func problems(request *cloudcredentialv1.CredentialsRequest) string {
	text := ""
	if request == nil {
		return text
	}
	for _, condition := range request.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			text += "; " + condition.Type + ": " + condition.Message
		}
	}
	return text
}
