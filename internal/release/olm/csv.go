package olm

import (
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ClusterServiceVersion has the fields of operators.coreos.com/v1alpha1 that our bundles may have. OLM drops unknown fields without a message. So
// we decode into these types strictly, and unknown fields are errors.
type ClusterServiceVersion struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        Metadata `json:"metadata"`
	Spec            Spec     `json:"spec"`
}

// Metadata has only the fields that our bundles need. Kubernetes' own type would add a creationTimestamp.
type Metadata struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// Spec describes the operator to people. It also tells OLM what to install.
type Spec struct {
	DisplayName    string        `json:"displayName"`
	Description    string        `json:"description"`
	Version        string        `json:"version"`
	MinKubeVersion string        `json:"minKubeVersion"`
	Maturity       string        `json:"maturity"`
	Replaces       string        `json:"replaces,omitempty"`
	Icon           []Icon        `json:"icon"`
	Keywords       []string      `json:"keywords"`
	Maintainers    []Person      `json:"maintainers"`
	Provider       Link          `json:"provider"`
	Links          []Link        `json:"links"`
	InstallModes   []InstallMode `json:"installModes"`
	CRDs           CRDs          `json:"customresourcedefinitions"`
	// NativeAPIs are kinds that the cluster must serve. OLM does not check who owns these kinds. If the bundle listed their CRDs as required, OLM would
	// look in the catalogs for a bundle that owns them.
	NativeAPIs    []metav1.GroupVersionKind `json:"nativeAPIs"`
	Install       Install                   `json:"install"`
	RelatedImages []RelatedImage            `json:"relatedImages"`
}

// Icon is a picture for the console.
type Icon struct {
	Data      string `json:"base64data"`
	MediaType string `json:"mediatype"`
}

// Person is a contact.
type Person struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// Link is a link to a page.
type Link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// InstallMode says whether an OperatorGroup can select namespaces in this way.
type InstallMode struct {
	Type      string `json:"type"`
	Supported bool   `json:"supported"`
}

// CRDs lists the CustomResourceDefinitions that the bundle contains.
type CRDs struct {
	Owned []OwnedCRD `json:"owned,omitempty"`
}

// OwnedCRD describes a kind of our CRDs to users of the console.
type OwnedCRD struct {
	Name              string         `json:"name"`
	Version           string         `json:"version"`
	Kind              string         `json:"kind"`
	DisplayName       string         `json:"displayName"`
	Description       string         `json:"description"`
	Resources         []ResourceLink `json:"resources"`
	SpecDescriptors   []Descriptor   `json:"specDescriptors"`
	StatusDescriptors []Descriptor   `json:"statusDescriptors"`
}

// ResourceLink is a kind of objects that belong to the objects of an owned kind.
type ResourceLink struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

// Descriptor tells the console how to show a field. Path is relative to spec or status.
type Descriptor struct {
	Path         string   `json:"path"`
	DisplayName  string   `json:"displayName"`
	Description  string   `json:"description"`
	XDescriptors []string `json:"x-descriptors,omitempty"`
}

// Install lists the objects that OLM creates.
type Install struct {
	Strategy string      `json:"strategy"`
	Spec     InstallSpec `json:"spec"`
}

// InstallSpec has the permissions of the operator, and its Deployments.
type InstallSpec struct {
	ClusterPermissions []Permission `json:"clusterPermissions"`
	Permissions        []Permission `json:"permissions"`
	Deployments        []Deployment `json:"deployments"`
}

// Permission has the rules of one ServiceAccount. OLM makes a role and a binding from it, either in the operator's namespace or for the whole
// cluster.
type Permission struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

// Deployment has the name and the spec of a Deployment that OLM creates in the operator's namespace.
type Deployment struct {
	Name  string                `json:"name"`
	Label labels.Set            `json:"label,omitempty"`
	Spec  appsv1.DeploymentSpec `json:"spec"`
}

// RelatedImage is an image that a mirror needs.
type RelatedImage struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}
