package driver

import corev1 "k8s.io/api/core/v1"

// PolicyAnnotation is what the cloud-credential-operator puts on a Secret with keys of AWS: the IAM policy of the user whom it has made
// for the CredentialsRequest. Where it has made none, but copied the cluster's own keys, the policy is empty. Secrets for STS have no such
// annotation. Source: cloud-credential-operator, pkg/aws/actuator/actuator.go, syncMint, syncPassthrough and syncAccessKeySecret, in
// release-4.10, release-4.15 and b187feee6.
const PolicyAnnotation = "cloudcredential.openshift.io/aws-policy-last-applied"

// Minting is what the cloud-credential-operator does with the keys that the administrator gave to the cluster.
type Minting int

const (
	// MintingUnknown means that nothing has shown it yet.
	MintingUnknown Minting = iota
	// Mints means that each CredentialsRequest gets keys of its own, which may do what it asks for.
	Mints
	// PassesThrough means that each gets a copy of the administrator's keys.
	PassesThrough
)

// Minted tells whether the keys of a Secret were made for one CredentialsRequest alone.
func Minted(secret *corev1.Secret) bool { return secret.Annotations[PolicyAnnotation] != "" }

// PassedThrough tells whether the keys of a Secret are copies of the keys that the administrator gave to the cluster. Node pods never get
// these. It is false for roles, and for Secrets that others have made.
func PassedThrough(secret *corev1.Secret) bool {
	policy, found := secret.Annotations[PolicyAnnotation]
	return found && policy == ""
}
