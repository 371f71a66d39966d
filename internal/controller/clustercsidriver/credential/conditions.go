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

// provisioned reports whether the cloud-credential-operator has fulfilled the current generation of a request.
func provisioned(request *cloudcredentialv1.CredentialsRequest) bool {
	return request != nil && request.Status.Provisioned && request.Status.LastSyncGeneration == request.Generation
}

// fails reports whether the cloud-credential-operator can't fulfill a request (openshift/cloud-credential-operator b187feee6,
// pkg/apis/cloudcredential/v1/types_credentialsrequest.go, FailureConditionTypes). The cloud-credential-operator retries with growing pauses.
func fails(request *cloudcredentialv1.CredentialsRequest) bool {
	return hasCondition(request, "CredentialsProvisionFailure", cannotMint, "MissingTargetNamespace")
}

// cannotMint is the condition of a request for which the cloud-credential-operator lacks credentials to mint keys. cannotMint never appears together
// with CredentialsProvisionFailure (openshift/cloud-credential-operator b187feee6, pkg/operator/credentialsrequest/credentialsrequest_controller.go,
// updateActuatorConditions).
const cannotMint = "InsufficientCloudCreds"

// requested reports whether a CredentialsRequest asks for the Secret, or will ask for it. The CredentialsRequest comes from this operator or from the
// OpenShift release. A CredentialsRequest of the release names no role, because the role is different in each cluster. In manual mode, the
// cloud-credential-operator ignores a CredentialsRequest without a role.
func (f Found) requested(cfg driver.Config, credentials driver.Credentials) bool {
	if credentials.Payload {
		return f.Requests[credentials.Request] != nil && cfg.CredentialsMode != operatorv1.CloudCredentialsModeManual
	}
	return cfg.Requests(credentials)
}

// hasCondition reports whether at least one of these conditions of a request is True. Argument "request" can be nil.
func hasCondition(request *cloudcredentialv1.CredentialsRequest, conditions ...string) bool {
	return request != nil && slices.ContainsFunc(request.Status.Conditions, func(one cloudcredentialv1.CredentialsRequestCondition) bool {
		return one.Status == corev1.ConditionTrue && slices.Contains(conditions, one.Type)
	})
}

// isByHand reports whether a Secret exists that the cloud-credential-operator did not create, while the cloud-credential-operator can't fulfill the
// request.
func (f Found) isByHand(credentials driver.Credentials) bool {
	secret, found := f.Secrets[credentials.Secret]
	request := f.Requests[credentials.Request]
	return found && !provisioned(request) && fails(request) && !secret.isOf(credentials)
}

// isInTheWay reports whether a Secret that a user created by hand prevents the cloud-credential-operator from fulfilling the request.
func (f Found) isInTheWay(credentials driver.Credentials) bool {
	return f.isByHand(credentials) && !hasCondition(f.Requests[credentials.Request], cannotMint)
}

// isOf reports whether a Secret belongs to the CredentialsRequest of these credentials.
func (s Secret) isOf(credentials driver.Credentials) bool {
	return s.Request == cloudcredentialv1.Namespace+"/"+credentials.Request
}

// row is one possible state of credentials.
type row struct {
	applies          bool
	available, waits bool
	reason, message  string
}

// State returns the conditions of these credentials. Argument "predecessors" is true if a predecessor still runs the driver.
func (f Found) State(
	cfg driver.Config, credentials driver.Credentials, predecessors bool,
) (available, progressing operatorv1.OperatorCondition) {
	rows := f.table(cfg, credentials, predecessors)
	state := rows[slices.IndexFunc(rows, func(one row) bool { return one.applies })]
	available = status.Condition(credentials.Condition+status.Available, state.available, state.reason, state.message)
	progressing = status.Condition(credentials.Condition+status.Progressing, state.waits, state.reason, "")
	if state.waits {
		progressing.Message = state.message
	}
	return available, progressing
}

// table lists all possible states. The first row that applies determines the state. The last row always applies.
func (f Found) table(cfg driver.Config, credentials driver.Credentials, predecessors bool) []row {
	secret, found := f.Secrets[credentials.Secret]
	request := f.Requests[credentials.Request]
	// While a predecessor runs the driver, this operator creates no CredentialsRequest.
	requested := f.requested(cfg, credentials) && (request != nil || !predecessors)
	pending := requested && !provisioned(request)
	name, optional, reported := cfg.Namespace+"/"+credentials.Secret, credentials.Optional, problems(request)
	from := mode(cfg, credentials) + ": "
	return []row{
		// applies, available, waits, reason, message
		{found && !credentials.Usable(secret.Keys), optional, false, "SecretUnusable", unusable(cfg.Namespace, credentials, secret)},
		{secret.PassedThrough && optional, true, false, "CredentialsPassedThrough", from + withheld(cfg, credentials)},
		{pending && f.isInTheWay(credentials), true, false, status.ActionRequired, from + unprovisioned(cfg, credentials) + reported},
		{pending && f.isByHand(credentials), true, false, "CredentialsNotMinted", from + "Secret " + name + " exists, but the cloud-credential-operator " +
			"did not create it. Keep the Secret: the cloud-credential-operator has no cloud credentials to create its own" + reported},
		{pending, found || optional, true, "CredentialsNotProvisionedYet", from + "waiting for the cloud-credential-operator to create Secret " +
			credentials.Secret + " for CredentialsRequest " + cloudcredentialv1.Namespace + "/" + credentials.Request + reported},
		{!found && requested, optional, true, secretMissing, from + "Secret " + name + " is missing, waiting for the cloud-credential-operator to " +
			"recreate it"},
		{!found && optional, true, false, "CredentialsDisabled", from + withoutRequest(cfg, credentials)},
		{!found && predecessors, false, false, secretMissing, "Secret " + name + " is missing; this operator does not request it while " +
			"spec.managementState is Unmanaged"},
		{!found, false, false, secretMissing, from + withoutRequest(cfg, credentials)},
		{credentials.LacksFile(cfg, secret.Keys), true, false, "CredentialsFileMissing", from + withoutFile(cfg, credentials)},
		{true, true, false, "", from + "Secret " + name + " is there"},
	}
}

// secretMissing is the reason of a condition about a Secret that does not exist.
const secretMissing = "SecretMissing"

// unusable returns a message with the keys that a Secret has, and the keys that it must have.
func unusable(namespace string, credentials driver.Credentials, found Secret) string {
	return fmt.Sprintf("Secret %s/%s has keys [%s], but needs %s", namespace, credentials.Secret, strings.Join(found.Keys, " "),
		credentials.WantedKeys())
}

// withoutFile returns the advice about a Secret that lacks the credentials file, although a setting needs this file.
func withoutFile(cfg driver.Config, credentials driver.Credentials) string {
	return fmt.Sprintf("Secret %s/%s lacks key %s, and the mount helper reads credentials only from the file in this key. So %s=true has no effect, "+
		"and the %s pods mount with the IAM role of their EC2 instance. Add the key with an AWS configuration file to the Secret, or set %s to an IAM "+
		"role in the operator's environment", cfg.Namespace, credentials.Secret, driver.CredentialsFile, credentials.FileSetting, credentials.Workload,
		credentials.RoleARNVariable)
}

// unprovisioned returns the advice about a Secret that blocks the cloud-credential-operator. The cloud-credential-operator uses the keys in the
// Secret to query the cloud for the user of these keys. This query fails (openshift/cloud-credential-operator b187feee6,
// pkg/aws/actuator/actuator.go, needsUpdate).
func unprovisioned(cfg driver.Config, credentials driver.Credentials) string {
	return fmt.Sprintf("Secret %s/%s exists, but the cloud-credential-operator did not create it, and can't create its own for "+
		"CredentialsRequest %s/%s. If the cloud-credential-operator may create users in the cloud, delete the existing Secret: the "+
		"cloud-credential-operator then creates its own. "+
		"Otherwise keep the Secret, which the driver can use, and fix the error that the CredentialsRequest reports",
		cfg.Namespace, credentials.Secret, cloudcredentialv1.Namespace, credentials.Request)
}

// Remedy says what an administrator must do about a missing Secret. It returns an empty string if the message of State already contains the advice.
func (f Found) Remedy(cfg driver.Config, credentials driver.Credentials) string {
	secret, found := f.Secrets[credentials.Secret]
	if !f.requested(cfg, credentials) || found && !credentials.Usable(secret.Keys) || f.isInTheWay(credentials) {
		return ""
	}
	return fmt.Sprintf(". An administrator has to fix the error of the cloud-credential-operator: oc describe clusteroperator "+
		"cloud-credential; oc -n %s describe credentialsrequest %s", cloudcredentialv1.Namespace, credentials.Request)
}

// mode returns a text about how the cluster provides credentials, such as "default mode".
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
		return "default mode (the cloud-credential-operator creates keys for each request)"
	case cfg.Minting == driver.PassesThrough:
		return "default mode (the cloud-credential-operator passes the cluster's own keys through)"
	default:
		return "default mode (mint or passthrough, as the cluster's own keys allow)"
	}
}

// withheld returns a message that says why pods don't get an existing Secret, and what an administrator can do.
func withheld(cfg driver.Config, credentials driver.Credentials) string {
	return fmt.Sprintf("Secret %s/%s holds a copy of the cluster's own keys, as its empty annotation %s shows. The operator does not give "+
		"this Secret to the %s pods, and immediately replaces pods that already have it. If the cloud-credential-operator can create keys, delete the "+
		"Secret. Otherwise replace its keys by keys for this driver alone, or set variable %s of the operator to the ARN of an IAM role; "+
		"\"oc storage iam policy %s\" prints the IAM policy",
		cfg.Namespace, credentials.Secret, driver.PolicyAnnotation, credentials.Workload, credentials.RoleARNVariable, credentials.Workload)
}

// withoutRequest returns the advice about a missing Secret that the cloud-credential-operator is not going to create.
func withoutRequest(cfg driver.Config, credentials driver.Credentials) string {
	if credentials.Payload {
		return fmt.Sprintf("Secret %s/%s is missing; the %s don't start without it. CredentialsRequest %s/%s, which comes with the release, asks the "+
			"cloud-credential-operator for it: read the conditions of this CredentialsRequest. In manual mode, create the Secret with ccoctl, or by hand "+
			"with %s", cfg.Namespace, credentials.Secret, credentials.Pods(),
			cloudcredentialv1.Namespace, credentials.Request, credentials.WantedKeys())
	}
	pods := fmt.Sprintf("the %s don't start without it", credentials.Pods())
	if credentials.Optional {
		pods = "the driver works without it, except for One Zone volumes in another zone"
	}
	role := ""
	if cfg.Kinds[driver.CredentialsRequestKind()] {
		role = fmt.Sprintf(", or set %s to an IAM role in the operator's environment", credentials.RoleARNVariable)
	}
	return fmt.Sprintf("Secret %s/%s is missing and no CredentialsRequest asks for it; %s. Create it with %s%s; \"oc storage iam policy %s\" prints "+
		"the IAM policy", cfg.Namespace, credentials.Secret, pods, credentials.WantedKeys(), role, credentials.Workload)
}

// problems returns a text with the conditions of a request that have status True. The text is empty if no condition has status True.
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
