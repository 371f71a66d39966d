// Package v1 has the part of the cloud-credential-operator's API that the operators use: the CredentialsRequest of cloudcredential.openshift.io/v1.
// openshift/api does not contain this kind.
//
// +kubebuilder:object:generate=true
// +groupName=cloudcredential.openshift.io
package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Namespace is the namespace in which the cloud-credential-operator looks for CredentialsRequests.
const Namespace = "openshift-cloud-credential-operator"

// GroupVersion returns the API group and version of CredentialsRequest.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "cloudcredential.openshift.io", Version: "v1"}
}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &CredentialsRequest{}, &CredentialsRequestList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}

// CredentialsRequest asks the cloud-credential-operator for a Secret with cloud credentials.
//
// +kubebuilder:object:root=true
type CredentialsRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CredentialsRequestSpec   `json:"spec"`
	Status CredentialsRequestStatus `json:"status,omitzero"`
}

// CredentialsRequestSpec says which permissions the request asks for, and into which Secret the cloud-credential-operator writes the credentials.
type CredentialsRequestSpec struct {
	// SecretRef names the Secret that the cloud-credential-operator writes.
	SecretRef corev1.ObjectReference `json:"secretRef"`
	// ProviderSpec has the permissions, in a form that differs between clouds.
	ProviderSpec *ProviderSpec `json:"providerSpec,omitempty"`
	// ServiceAccountNames are the ServiceAccounts that use the credentials; ccoctl writes them into the trust policy.
	ServiceAccountNames []string `json:"serviceAccountNames,omitempty"`
	// CloudTokenPath is the path at which the pods mount the ServiceAccount token that they exchange for cloud credentials (STS).
	CloudTokenPath string `json:"cloudTokenPath,omitempty"`
}

// ProviderSpec has the permissions on one cloud. Kind names the cloud, for instance AWSProviderSpec. ProviderSpec is not raw JSON, so that strict
// decoding rejects a misspelt permission.
type ProviderSpec struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// StatementEntries are IAM statements of AWS.
	StatementEntries []StatementEntry `json:"statementEntries,omitempty"`
	// STSIAMRoleARN is the role to assume on an AWS cluster with STS.
	STSIAMRoleARN string `json:"stsIAMRoleARN,omitempty"`
	// PredefinedRoles are the roles of GCP. Permissions are the permissions of GCP or Azure.
	PredefinedRoles []string `json:"predefinedRoles,omitempty"`
	Permissions     []string `json:"permissions,omitempty"`
	// SkipServiceCheck tells the cloud-credential-operator not to check whether the GCP project has enabled the services of the permissions.
	SkipServiceCheck bool `json:"skipServiceCheck,omitempty"`
	// Policies are the policies of IBM Cloud.
	Policies []Policy `json:"policies,omitempty"`
}

// Policy grants the Roles on each resource that has all Attributes.
type Policy struct {
	Attributes []Attribute `json:"attributes"`
	Roles      []string    `json:"roles"`
}

// Attribute is an attribute of a resource of IBM Cloud.
type Attribute struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// StatementEntry is one statement of an IAM policy.
type StatementEntry struct {
	Effect   string   `json:"effect"`
	Action   []string `json:"action"`
	Resource string   `json:"resource"`
	// PolicyCondition is the condition of an IAM policy. It maps a condition operator, such as StringEquals, to a key, and the key to a value.
	PolicyCondition map[string]map[string]string `json:"policyCondition,omitempty"`
}

// CredentialsRequestStatus has the reports of the cloud-credential-operator.
type CredentialsRequestStatus struct {
	// Provisioned is true once the Secret exists.
	Provisioned bool `json:"provisioned,omitempty"`
	// LastSyncGeneration is the generation of the CredentialsRequest that the cloud-credential-operator synchronized last.
	LastSyncGeneration int64 `json:"lastSyncGeneration,omitempty"`
	// Conditions say what went wrong.
	Conditions []CredentialsRequestCondition `json:"conditions,omitempty"`
}

// CredentialsRequestCondition is one problem of a CredentialsRequest. Status True means that the problem exists.
type CredentialsRequestCondition struct {
	Type    string                 `json:"type"`
	Status  corev1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
}

// CredentialsRequestList is a list of CredentialsRequests.
//
// +kubebuilder:object:root=true
type CredentialsRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CredentialsRequest `json:"items"`
}
