package efs

import "fmt"

const (
	// AllowedAnnotation on a Namespace limits the namespace's SharedVolumes to the shares in a comma-separated list. "fs-ID" allows all access points of
	// a file system, "fs-ID/fsap-ID" one, and "*" all. An empty list allows none.
	AllowedAnnotation = "aws-efs.managed.openshift.io/allowed-shares"
	// UnlistedAnnotation on the ClusterCSIDriver decides for namespaces without a list: "Allow" allows all shares, and "Deny" denies all shares. Without
	// the annotation, DefaultAnnotation decides. While the value is invalid, the last valid value stays in effect. Clusters without admission policies
	// don't store the last valid value, so they deny all shares while the value is invalid.
	UnlistedAnnotation = "aws-efs.managed.openshift.io/unlisted-namespaces"
	// DefaultAnnotation on the policy of SharedVolumes records the default for namespaces without a list. The operator sets it once: "Allow" if such
	// namespaces have used SharedVolumes before, else "Deny". Kubernetes deletes the policy with the policy's owner, the CustomResourceDefinition.
	DefaultAnnotation = "aws-efs.managed.openshift.io/unlisted-namespaces-default"

	// SharedVolumesName is the name of the CustomResourceDefinition of SharedVolumes, and of their ValidatingAdmissionPolicy.
	SharedVolumesName = "sharedvolumes.aws-efs.managed.openshift.io"
	// UnlistedPolicy is the name of the policy that denies all shares to namespaces without a list.
	UnlistedPolicy = "unlisted-namespaces.sharedvolumes.aws-efs.managed.openshift.io"

	// UnlistedAllow is a value of UnlistedAnnotation and DefaultAnnotation: it allows all shares to namespaces without a list.
	UnlistedAllow = "Allow"
	// UnlistedDeny is the other value: it denies all shares to namespaces without a list.
	UnlistedDeny = "Deny"
)

// Limits restricts the shares of a namespace. The zero value restricts nothing.
type Limits struct {
	Namespace string
	// List names the shares that the namespace may use, if Listed is true. Closed is true if a namespace without such a list must not use any share.
	List           string
	Listed, Closed bool
}

// Restricted reports whether the namespace has a limit.
func (l Limits) Restricted() bool { return l.Listed || l.Closed }

// Denied returns why the namespace must not use a share, and what to do. It returns an empty text if the namespace is allowed to use the share.
func (l Limits) Denied(wanted Share) string {
	switch {
	case l.Listed && !wanted.ListedIn(l.List):
		return fmt.Sprintf("namespace %s may not use access point %s of file system %s: ask a cluster administrator to add %s/%s to annotation %s of the "+
			"namespace", l.Namespace, wanted.AccessPoint, wanted.FileSystem, wanted.FileSystem, wanted.AccessPoint, AllowedAnnotation)
	case !l.Listed && l.Closed:
		return fmt.Sprintf("namespace %s may not use any file system, because it lacks annotation %s: ask a cluster administrator to set the annotation "+
			"to %s/%s", l.Namespace, AllowedAnnotation, wanted.FileSystem, wanted.AccessPoint)
	default:
		return ""
	}
}

// IsClosed reports whether namespaces without a list must not use any share. The annotation of the ClusterCSIDriver decides, or the default if the
// annotation is absent. If the annotation's value is invalid, result "known" is false, and callers must ignore result "closed".
func IsClosed(annotations map[string]string, byDefault string) (closed, known bool) {
	value, set := annotations[UnlistedAnnotation]
	if !set {
		value = byDefault
	}
	return value != UnlistedAllow, !set || value == UnlistedAllow || value == UnlistedDeny
}
