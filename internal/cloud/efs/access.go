package efs

import "fmt"

const (
	// AllowedAnnotation on a Namespace limits its SharedVolumes to a list, separated by commas: "fs-ID" for all access points
	// of a file system, "fs-ID/fsap-ID" for one, "*" for everything. An empty list allows nothing.
	AllowedAnnotation = "aws-efs.managed.openshift.io/allowed-shares"
	// UnlistedAnnotation on the ClusterCSIDriver says what namespaces without a list may use: "Allow" everything, "Deny" nothing. Without it,
	// DefaultAnnotation counts. Any other value changes nothing.
	UnlistedAnnotation = "aws-efs.managed.openshift.io/unlisted-namespaces"
	// DefaultAnnotation on the policy of SharedVolumes remembers what was decided when this operator first served SharedVolumes in this
	// cluster: "Deny" in a new installation, "Allow" where namespaces without a list have used SharedVolumes before. It lives as long as
	// the CustomResourceDefinition, which owns the policy.
	DefaultAnnotation = "aws-efs.managed.openshift.io/unlisted-namespaces-default"

	// SharedVolumesName is the name of the CustomResourceDefinition of SharedVolumes, and of their ValidatingAdmissionPolicy.
	SharedVolumesName = "sharedvolumes.aws-efs.managed.openshift.io"
	// UnlistedPolicy is the name of the policy that is there while namespaces without a list may use nothing.
	UnlistedPolicy = "unlisted-namespaces.sharedvolumes.aws-efs.managed.openshift.io"

	// UnlistedAllow is the value of UnlistedAnnotation and DefaultAnnotation that opens namespaces without a list.
	UnlistedAllow = "Allow"
	// UnlistedDeny is the value that closes them.
	UnlistedDeny = "Deny"
)

// Limits are what a namespace may use. The zero value limits nothing.
type Limits struct {
	Namespace string
	// List counts if the namespace is listed. Closed means that namespaces without a list may use nothing.
	List           string
	Listed, Closed bool
}

// Restricted reports whether somebody limits the namespace.
func (l Limits) Restricted() bool { return l.Listed || l.Closed }

// Denied says why the namespace may not use a share, and what to do; empty if it may.
func (l Limits) Denied(wanted Share) string {
	switch {
	case l.Listed && !wanted.ListedIn(l.List):
		return fmt.Sprintf("namespace %s may not use access point %s of file system %s: ask an administrator of the cluster to add it to "+
			"the annotation %s of the namespace", l.Namespace, wanted.AccessPoint, wanted.FileSystem, AllowedAnnotation)
	case !l.Listed && l.Closed:
		return fmt.Sprintf("namespace %s may not use any file system: ask an administrator of the cluster to list %s/%s in the annotation %s "+
			"of the namespace", l.Namespace, wanted.FileSystem, wanted.AccessPoint, AllowedAnnotation)
	default:
		return ""
	}
}

// IsClosed reports whether namespaces without a list may use nothing, by the annotations of a ClusterCSIDriver and the default. It is known unless
// the value of the annotation is an unknown one.
func IsClosed(annotations map[string]string, byDefault string) (closed, known bool) {
	value, set := annotations[UnlistedAnnotation]
	if !set {
		value = byDefault
	}
	return value != UnlistedAllow, !set || value == UnlistedAllow || value == UnlistedDeny
}
