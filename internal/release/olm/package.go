// Package olm generates and checks the input of the Operator Lifecycle Manager: bundles in the format registry+v1, and a file-based catalog of
// them. docs/contribute/images-and-packaging.md has the steps. It checks everything before it writes a file.
package olm

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/blang/semver/v4"

	"github.com/csi-operators/csi-operators/internal/release"
)

// Channel is the only one of each package.
const Channel = "stable"

// Bundles and Catalog are the generated folders, from the root of the repository.
const (
	Bundles = "bundle"
	Catalog = "bundle/catalog"
)

// PackageFile describes the package of a tree of its own, such as that of a driver which this repository does not ship.
const PackageFile = "config/package.yaml"

// Package is a name under which the operator is in the catalog.
type Package struct {
	Name string
	// Namespace is the default namespace.
	Namespace string
	// Title is what the console shows.
	Title string
	// Suffix is added to the version. A bridge has one, so that it is older than the release to which it upgrades.
	Suffix string
	// Preface comes before the description.
	Preface string
	// Replaces is the newest version of another publisher under this name, or empty.
	Replaces string
	// Predecessors are versions that must be able to upgrade to the newest one, by the name of their package. They are examples, not a
	// complete list.
	Predecessors map[string][]string
	// Manifests are the folders of objects that OLM installs beside the operator.
	Manifests []string
	// Catalog is the release's name for the catalog's image, and Source the name of the CatalogSource.
	Catalog, Source string
	// Served is the image of the catalog with the program that serves it; empty if there is none.
	Served string
	// Driver is the CSI name of a third-party driver that the package is for; empty for the packages of this repository.
	Driver string
	// Unlisted says that no ClusterCSIDriver may have the driver's name yet. Such a package can be built, but not released.
	Unlisted bool
	// OwnVersions is set if release numbers do not follow OpenShift's.
	OwnVersions bool
}

// Packages returns the operator's own package, and one with the name of the community's package. Users of the community's package get this operator
// when they change only the source of their Subscription.
func Packages() []Package {
	community := []string{"0.0.6", "0.0.7", "0.0.8", "0.1.1-4f3c2d1", "0.1.209-9c87267"}
	manifests := []string{crdFolder, monitoringFolder, roleFolder}
	return []Package{
		{
			Name: "aws-efs-csi-driver-operator", Namespace: "openshift-cluster-csi-drivers", Title: "AWS EFS CSI Driver Operator",
			Predecessors: map[string][]string{
				"aws-efs-csi-driver-operator": {"4.9.0-202110121402", "4.16.0-202410111039", "4.20.3", "5.0.0"},
				"aws-efs-operator":            community,
			},
			// Not in the bridge: two packages can't have cluster-scoped objects of one name.
			Manifests: append(slices.Clone(manifests), consoleFolder), Catalog: "csi-operators-catalog", Source: "csi-operators",
			Served: "csi-operators-catalog-opm",
		},
		{
			Name: "aws-efs-operator", Namespace: "openshift-operators", Title: "AWS EFS Operator (upgrade to AWS EFS CSI Driver Operator)",
			Suffix: "bridge", Replaces: "aws-efs-operator.v0.0.8",
			Preface: "This is the AWS EFS CSI Driver Operator, under the name of the community's AWS EFS Operator and for its users " +
				"only: when they change the source of their Subscription to this catalog, they get it as an upgrade. If you have " +
				"never used the community's operator, install package aws-efs-csi-driver-operator.\n\n",
			Predecessors: map[string][]string{"aws-efs-operator": community},
			Manifests:    manifests, Catalog: "csi-operators-catalog", Source: "csi-operators",
		},
	}
}

// described is PackageFile.
type described struct {
	Driver    string `json:"driver"`
	Name      string `json:"name"`
	Title     string `json:"title"`
	Namespace string `json:"namespace"`
	Unlisted  bool   `json:"unlisted,omitempty"`
}

// PackageOf returns the first package of a tree. That of this repository has no Driver.
func PackageOf(repository fs.FS) (Package, error) {
	packages, err := packagesOf(repository)
	if err != nil {
		return Package{}, err
	}
	return packages[0], nil
}

// packagesOf returns the packages of a tree. A described package has neither a CRD nor a predecessor; without a description they are the
// operator's own.
func packagesOf(repository fs.FS) ([]Package, error) {
	text, err := fs.ReadFile(repository, PackageFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Packages(), nil
	}
	var found described
	if err == nil {
		err = unmarshal(text, &found)
	}
	if err == nil && (found.Driver == "" || found.Name == "" || found.Title == "" || found.Namespace == "") {
		err = errors.New("driver, name, title and namespace must be set")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", PackageFile, err)
	}
	return []Package{{
		Driver: found.Driver, Unlisted: found.Unlisted, Name: found.Name, Namespace: found.Namespace, Title: found.Title,
		Manifests: []string{monitoringFolder},
		Catalog:   found.Name + "-catalog", Source: found.Name, OwnVersions: true,
	}}, nil
}

// besides are the images that OLM does not need everywhere. One is the catalog for old clusters, one the plugin for users who can't download it.
func (p Package) besides() []string {
	if p.Served == "" {
		return nil
	}
	return []string{p.Served, release.Plugin}
}

// defines reports whether the package brings CRDs of kinds.
func (p Package) defines() bool { return slices.Contains(p.Manifests, crdFolder) }

// Version returns the package's version in a release: the version of the release, with the Suffix if there is one.
func (p Package) Version(version semver.Version) semver.Version {
	if p.Suffix != "" {
		version.Pre = []semver.PRVersion{{VersionStr: p.Suffix}}
	}
	return version
}

// CSVName is the name of the package's ClusterServiceVersion in a release.
func (p Package) CSVName(version semver.Version) string {
	return fmt.Sprintf("%s.v%s", p.Name, p.Version(version))
}

// ImageName is the release's name for the image of the package's bundle.
func (p Package) ImageName() string { return p.Name + "-bundle" }

// values returns the placeholders that differ between packages and releases.
func (p Package) values(version semver.Version) map[string]string {
	return map[string]string{"PACKAGE": p.Name, "VERSION": p.Version(version).String(), "NAMESPACE": p.Namespace}
}
