package credential

import (
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// provisioned reports whether the cloud-credential-operator has followed a request as it is now.
func provisioned(request *cloudcredentialv1.CredentialsRequest) bool {
	return request != nil && request.Status.Provisioned && request.Status.LastSyncGeneration == request.Generation
}

// fails reports whether the cloud-credential-operator says that it can't follow a request (openshift/cloud-credential-operator b187feee6,
// pkg/apis/cloudcredential/v1/types_credentialsrequest.go, FailureConditionTypes). It tries again, at longer and longer intervals.
func fails(request *cloudcredentialv1.CredentialsRequest) bool {
	return says(request, "CredentialsProvisionFailure", cannotMint, "MissingTargetNamespace")
}

// cannotMint is the condition of a request for which the cloud-credential-operator has no credentials of the cloud that may make others. It
// is never beside CredentialsProvisionFailure (credentialsrequest_controller.go, updateActuatorConditions).
const cannotMint = "InsufficientCloudCreds"

// says reports whether a request, which may be nil, has one of these conditions.
func says(request *cloudcredentialv1.CredentialsRequest, conditions ...string) bool {
	return request != nil && slices.ContainsFunc(request.Status.Conditions, func(one cloudcredentialv1.CredentialsRequestCondition) bool {
		return one.Status == corev1.ConditionTrue && slices.Contains(conditions, one.Type)
	})
}

// isByHand reports whether the cloud-credential-operator can't follow a request, and has not made the Secret that is there.
func (f Found) isByHand(credentials driver.Credentials) bool {
	secret, found := f.Secrets[credentials.Secret]
	request := f.Requests[credentials.Request]
	return found && !provisioned(request) && fails(request) && !secret.isOf(credentials)
}

// isInTheWay reports whether such a Secret keeps the cloud-credential-operator from following the request.
func (f Found) isInTheWay(credentials driver.Credentials) bool {
	return f.isByHand(credentials) && !says(f.Requests[credentials.Request], cannotMint)
}

// isOf reports whether a Secret was made for the CredentialsRequest of some credentials.
func (s Secret) isOf(credentials driver.Credentials) bool {
	return s.Request == cloudcredentialv1.Namespace+"/"+credentials.Request
}

// State is what is to be said about some credentials of a driver. Predecessors means that the driver is still that of a predecessor.
func (f Found) State(
	d driver.Driver, cfg driver.Config, credentials driver.Credentials, predecessors bool,
) (available, progressing operatorv1.OperatorCondition) {
	secret, found := f.Secrets[credentials.Secret]
	request := f.Requests[credentials.Request]
	requested := cfg.Requests(credentials) && isOurs(request, predecessors)
	state := func(value bool, reason, message string, waiting bool) (available, progressing operatorv1.OperatorCondition) {
		available = status.Condition(credentials.Condition+status.Available, value, reason, message)
		progressing = status.Condition(credentials.Condition+status.Progressing, waiting, reason, "")
		if waiting {
			progressing.Message = message
		}
		return available, progressing
	}
	switch {
	case found && !credentials.Usable(secret.Keys):
		return state(credentials.Optional, "SecretUnusable", unusable(cfg.Namespace, credentials, secret), false)
	case secret.PassedThrough && credentials.Optional:
		return state(true, "CredentialsPassedThrough", withheld(d, cfg, credentials), false)
	case requested && !provisioned(request):
		return f.stateUnprovisioned(cfg, credentials, state)
	case !found && requested:
		return state(credentials.Optional, secretMissing, fmt.Sprintf("%s: Secret %s/%s has gone, waiting for the "+
			"cloud-credential-operator to make it again", mode(cfg, credentials), cfg.Namespace, credentials.Secret), true)
	case !found:
		return stateWithoutSecret(d, cfg, credentials, predecessors, state)
	default:
		reason, message := there(cfg, credentials, secret)
		return state(true, reason, message, false)
	}
}

// stateUnprovisioned is that of credentials for which the cloud-credential-operator has not followed the request.
func (f Found) stateUnprovisioned(
	cfg driver.Config, credentials driver.Credentials,
	state func(value bool, reason, message string, waiting bool) (available, progressing operatorv1.OperatorCondition),
) (available, progressing operatorv1.OperatorCondition) {
	said := problems(f.Requests[credentials.Request])
	switch {
	case f.isInTheWay(credentials):
		return state(true, status.ActionRequired, unprovisioned(cfg, credentials)+said, false)
	case f.isByHand(credentials):
		return state(true, "CredentialsNotMinted", fmt.Sprintf("%s: Secret %s/%s is there, and the cloud-credential-operator did not make it. Keep it: "+
			"the cloud-credential-operator has no credentials of the cloud with which it could make its own", mode(cfg, credentials), cfg.Namespace,
			credentials.Secret)+said, false)
	}
	_, found := f.Secrets[credentials.Secret]
	message := fmt.Sprintf("%s: waiting for the cloud-credential-operator to make Secret %s for CredentialsRequest %s/%s",
		mode(cfg, credentials), credentials.Secret, cloudcredentialv1.Namespace, credentials.Request)
	return state(found || credentials.Optional, "CredentialsNotProvisionedYet", message+said, true)
}

// isOurs reports whether a request is ours to look at: we ask for none beside a predecessor.
func isOurs(request *cloudcredentialv1.CredentialsRequest, predecessors bool) bool {
	return request != nil || !predecessors
}

// stateWithoutSecret is that of credentials that nobody was asked for.
func stateWithoutSecret(
	d driver.Driver, cfg driver.Config, credentials driver.Credentials, predecessors bool,
	state func(value bool, reason, message string, waiting bool) (available, progressing operatorv1.OperatorCondition),
) (available, progressing operatorv1.OperatorCondition) {
	switch {
	case credentials.Optional:
		return state(true, "CredentialsDisabled", withoutRequest(d, cfg, credentials), false)
	case predecessors:
		return state(false, secretMissing, fmt.Sprintf("Secret %s/%s is missing; this operator asks for none while spec.managementState is Unmanaged",
			cfg.Namespace, credentials.Secret), false)
	default:
		return state(false, secretMissing, withoutRequest(d, cfg, credentials), false)
	}
}

// unusable says which keys a Secret lacks.
func unusable(namespace string, credentials driver.Credentials, found Secret) string {
	return fmt.Sprintf("Secret %s/%s has keys [%s], but needs %s", namespace, credentials.Secret, strings.Join(found.Keys, " "),
		credentials.WantedKeys())
}

// there is what is said of a Secret that can be used. It may not give mounts the identity that a setting asks for.
func there(cfg driver.Config, credentials driver.Credentials, secret Secret) (reason, message string) {
	if !credentials.LacksFile(cfg, secret.Keys) {
		return "", mode(cfg, credentials) + ": Secret " + cfg.Namespace + "/" + credentials.Secret + " is there"
	}
	return "CredentialsFileMissing", fmt.Sprintf(
		"%s: Secret %s/%s is there, but %s=true has no effect with it: mounts of the %s pods have the role of the instance. The mount "+
			"helper reads keys from a file only, so add key %s to the Secret, with a configuration file of AWS, or set %s to an IAM role in the operator's "+
			"environment", mode(cfg, credentials), cfg.Namespace, credentials.Secret, credentials.FileSetting, credentials.Workload, driver.CredentialsFile,
		credentials.RoleARNVariable)
}

// secretMissing is the reason where a Secret is not there.
const secretMissing = "SecretMissing"

// unprovisioned says what to do about a Secret that is in the way of the cloud-credential-operator. With the keys that it finds there, it asks the
// cloud about its own user, and fails (openshift/cloud-credential-operator b187feee6, pkg/aws/actuator/actuator.go, needsUpdate).
func unprovisioned(cfg driver.Config, credentials driver.Credentials) string {
	return fmt.Sprintf("%s: the cloud-credential-operator has not made Secret %s/%s, and fails to make its own for CredentialsRequest %s/%s. If "+
		"it may make users in the cloud, delete the Secret: it then makes its own at its next try. Else keep the Secret, with which the driver works, "+
		"and correct what it reports",
		mode(cfg, credentials), cfg.Namespace, credentials.Secret, cloudcredentialv1.Namespace, credentials.Request)
}

// Remedy says who has to do what when a Secret with credentials does not come; empty if the message of the state says it.
func (f Found) Remedy(cfg driver.Config, credentials driver.Credentials) string {
	secret, found := f.Secrets[credentials.Secret]
	if !cfg.Requests(credentials) || found && !credentials.Usable(secret.Keys) || f.isInTheWay(credentials) {
		return ""
	}
	return fmt.Sprintf(". An administrator has to correct what keeps the cloud-credential-operator from it: oc describe clusteroperator "+
		"cloud-credential; oc -n %s describe credentialsrequest %s", cloudcredentialv1.Namespace, credentials.Request)
}

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
func withheld(d driver.Driver, cfg driver.Config, credentials driver.Credentials) string {
	return fmt.Sprintf("%s: Secret %s/%s holds a copy of the cluster's own keys, as its empty annotation %s shows; the %s pods don't get it, "+
		"and those that had it are replaced at once. Delete it where the cloud-credential-operator can make keys, else make it with keys of its own, "+
		"or set %s to an IAM role in the operator's environment; \"%s iam-policy %s\" prints the IAM policy", mode(cfg, credentials), cfg.Namespace,
		credentials.Secret, driver.PolicyAnnotation, credentials.Workload, credentials.RoleARNVariable, d.Operator, credentials.Workload)
}

// withoutRequest says what to do where nobody makes a Secret.
func withoutRequest(d driver.Driver, cfg driver.Config, credentials driver.Credentials) string {
	if credentials.Payload {
		return fmt.Sprintf("%s: Secret %s/%s is missing; the %s are not started without it. CredentialsRequest %s/%s, which "+
			"comes with the release, asks the cloud-credential-operator for it: look at its conditions. In manual mode nobody does: make "+
			"the Secret with ccoctl, or by hand with %s", mode(cfg, credentials), cfg.Namespace, credentials.Secret, credentials.Pods(),
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
		"the IAM policy", mode(cfg, credentials), cfg.Namespace, credentials.Secret, pods, credentials.WantedKeys(), role,
		d.Operator, credentials.Workload)
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
