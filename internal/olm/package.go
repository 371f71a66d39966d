// Package olm makes and checks what the Operator Lifecycle Manager installs from: bundles in the format registry+v1, and a
// file-based catalog of them.
package olm

import (
	"fmt"

	"github.com/blang/semver/v4"
)

// Channel is the only one of each package.
const Channel = "stable"

// Bundles and Catalog are the folders with what is made, from the root of the repository.
const (
	Bundles = "bundle"
	Catalog = "bundle/catalog"
)

// Package is a name under which the operator is in the catalog.
type Package struct {
	Name string
	// Namespace is where its users run it, unless they choose another one.
	Namespace string
	// Title is what the console shows.
	Title string
	// Suffix is added to the version. A bridge has one, so that it is older than the release that it leads to.
	Suffix string
	// Preface comes before the description.
	Preface string
	// Replaces is the newest version that others have published under this name; empty if there is none.
	Replaces string
	// Former are versions of older operators from which an upgrade must lead to the newest one, by the name of the package in
	// which they are. They are examples of what is out there, not a complete list.
	Former map[string][]string
}

// Packages are the operator's own, and the one in which the community published its operator: a Subscription to that
// reaches this operator when nothing but its source is changed (seed 000, "Upgrade from the community operator").
func Packages() []Package {
	community := []string{"0.0.6", "0.0.7", "0.0.8", "0.1.1-4f3c2d1", "0.1.209-9c87267"}
	return []Package{
		{
			Name: "aws-efs-csi-driver-operator", Namespace: "openshift-cluster-csi-drivers", Title: "AWS EFS CSI Driver Operator",
			Former: map[string][]string{
				"aws-efs-csi-driver-operator": {"4.9.0-202110121402", "4.16.0-202410111039", "4.20.3", "5.0.0"},
				"aws-efs-operator":            community,
			},
		},
		{
			Name: "aws-efs-operator", Namespace: "openshift-operators", Title: "AWS EFS Operator (upgrade to AWS EFS CSI Driver Operator)",
			Suffix: "bridge", Replaces: "aws-efs-operator.v0.0.8",
			Preface: "This is the AWS EFS CSI Driver Operator, under the name of the community's AWS EFS Operator and for its users " +
				"only: when they change the source of their Subscription to this catalog, they get it as an upgrade. If you have " +
				"never used the community's operator, install package aws-efs-csi-driver-operator.\n\n",
			Former: map[string][]string{"aws-efs-operator": community},
		},
	}
}

// Version is that of the package in a release.
func (p Package) Version(release semver.Version) semver.Version {
	if p.Suffix != "" {
		release.Pre = []semver.PRVersion{{VersionStr: p.Suffix}}
	}
	return release
}

// CSVName is the name of the package's ClusterServiceVersion in a release.
func (p Package) CSVName(release semver.Version) string {
	return fmt.Sprintf("%s.v%s", p.Name, p.Version(release))
}

// ImageName is what the release calls the image of the package's bundle.
func (p Package) ImageName() string { return p.Name + "-bundle" }

// values are those of the placeholders that differ between packages and releases.
func (p Package) values(release semver.Version) map[string]string {
	return map[string]string{"PACKAGE": p.Name, "VERSION": p.Version(release).String(), "NAMESPACE": p.Namespace}
}
