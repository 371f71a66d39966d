package driver

import corev1 "k8s.io/api/core/v1"

// PolicyAnnotation is the cloud-credential-operator's annotation on a Secret with AWS keys. Its value is the IAM policy of the user that the
// cloud-credential-operator created for the CredentialsRequest. If the cloud-credential-operator copied the cluster's own keys, the annotation is
// empty. Secrets for STS lack the annotation. Source: cloud-credential-operator, pkg/aws/actuator/actuator.go, syncMint, syncPassthrough and
// syncAccessKeySecret, in release-4.10, release-4.15 and b187feee6.
const PolicyAnnotation = "cloudcredential.openshift.io/aws-policy-last-applied"

// Minting says how the cloud-credential-operator uses the cluster's own keys.
type Minting int

const (
	// MintingUnknown means that the operator does not know it yet.
	MintingUnknown Minting = iota
	// Mints means that each CredentialsRequest gets keys of its own, with the requested permissions.
	Mints
	// PassesThrough means that each CredentialsRequest gets a copy of the administrator's keys.
	PassesThrough
)

// Minted reports whether the keys of a Secret were created for one CredentialsRequest alone.
func Minted(secret *corev1.Secret) bool { return secret.Annotations[PolicyAnnotation] != "" }

// PassedThrough reports whether the keys of a Secret are copies of the administrator's keys, which node pods must never get. It is
// false for roles, and for Secrets of other owners.
func PassedThrough(secret *corev1.Secret) bool {
	policy, found := secret.Annotations[PolicyAnnotation]
	return found && policy == ""
}
