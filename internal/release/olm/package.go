// Package olm generates and checks what the Operator Lifecycle Manager reads: bundles in the format registry+v1, and a file-based catalog of the
// bundles. docs/contribute/images-and-packaging.md has the steps. The package checks everything before it writes a file.
package olm

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/blang/semver/v4"

	"github.com/csi-operators/csi-operators/internal/release"
)

// Stable is the channel of all releases except previews. Preview is the channel of all releases. A cluster that subscribes to it gets each preview,
// and later the release that follows the preview.
const (
	Stable  = "stable"
	Preview = "preview"
)

// channels returns the channels of a release. The first one is the channel to which the release's own installation subscribes.
func channels(version semver.Version) []string {
	if release.IsPreview(version) {
		return []string{Preview}
	}
	return []string{Stable, Preview}
}

// Bundles and Catalog are the generated folders, from the root of the repository.
const (
	Bundles = "bundle"
	Catalog = "bundle/catalog"
)

// PackageFile is the file that describes the package of a separate tree. This can be the tree of a driver that this repository does not ship.
const PackageFile = "config/package.yaml"

// Package is one name under which the catalog has the operator.
type Package struct {
	Name string
	// Namespace is the default namespace.
	Namespace string
	// Title is the name that the console shows.
	Title string
	// Suffix is the text that Version appends to the version of the release. Only a bridge has a suffix. A bridge is a package with the name of another
	// publisher's package. In the order of versions, 5.3.0-bridge is older than 5.3.0, so OLM can upgrade a cluster from the bridge to the release.
	Suffix string
	// Preface comes before the description.
	Preface string
	// Replaces is the newest version of another publisher's package with this name. It is empty if no other publisher has a package with this name.
	Replaces string
	// Predecessors are versions from which a cluster must be able to upgrade to the newest version. The key is the name of the package of these
	// versions. The versions are examples, not a complete list.
	Predecessors map[string][]string
	// Manifests are the folders with the objects that OLM installs in addition to the operator.
	Manifests []string
	// Catalog is the name of the catalog's image in the release. Source is the name of the CatalogSource.
	Catalog, Source string
	// Served is the name of the image that has the catalog and the program that serves it. It is empty if there is no such image.
	Served string
	// Driver is the CSI name of the third-party driver that the package is for. It is empty for the packages of this repository.
	Driver string
	// Unlisted means that the CRD does not allow a ClusterCSIDriver with the driver's name yet. Such a package can be built, but not released.
	Unlisted bool
	// OwnVersions means that the version numbers of the releases do not follow the version numbers of OpenShift.
	OwnVersions bool
}

// Packages returns the operator's own package, and a package with the name of the community's package. If users of the community's package change
// only the source of their Subscription, they get this operator.
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
			// The bridge does not have the objects of consoleFolder, because two packages can't have cluster-scoped objects of the same name.
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

// described has the content of PackageFile.
type described struct {
	Driver    string `json:"driver"`
	Name      string `json:"name"`
	Title     string `json:"title"`
	Namespace string `json:"namespace"`
	Unlisted  bool   `json:"unlisted,omitempty"`
}

// PackageOf returns the first package of a tree. The first package of this repository has no Driver.
func PackageOf(repository fs.FS) (Package, error) {
	packages, err := packagesOf(repository)
	if err != nil {
		return Package{}, err
	}
	return packages[0], nil
}

// packagesOf returns the packages of a tree. A tree with a PackageFile has one package, with neither a CRD nor a predecessor. A tree without this
// file is this repository, with the result of function Packages.
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

// besides returns the names of images that OLM does not need in every cluster. These are the catalog for old clusters, the image that "oc adm
// must-gather" runs, and the plugin, for users who can't download it.
func (p Package) besides() []string {
	if p.Served == "" {
		return nil
	}
	return []string{p.Served, release.MustGather, release.Plugin}
}

// defines reports whether the package contains the CRDs of its own kinds.
func (p Package) defines() bool { return slices.Contains(p.Manifests, crdFolder) }

// Version returns the version of the package in a release. It is the version of the release, with the Suffix if the package has one. In a preview,
// the preview's number comes before the Suffix. In the order of versions, 5.4.0-1.bridge is older than 5.4.0-bridge, and both are older than
// 5.4.0-preview.1.
func (p Package) Version(version semver.Version) semver.Version {
	if p.Suffix == "" {
		return version
	}
	suffix := []semver.PRVersion{{VersionStr: p.Suffix}}
	if release.IsPreview(version) {
		suffix = append([]semver.PRVersion{version.Pre[1]}, suffix...)
	}
	version.Pre = suffix
	return version
}

// CSVName returns the name of the package's ClusterServiceVersion in a release.
func (p Package) CSVName(version semver.Version) string {
	return fmt.Sprintf("%s.v%s", p.Name, p.Version(version))
}

// ImageName returns the name of the bundle's image in the release.
func (p Package) ImageName() string { return p.Name + "-bundle" }

// values returns the values of placeholders that differ between packages and between releases.
func (p Package) values(version semver.Version) map[string]string {
	return map[string]string{"PACKAGE": p.Name, "VERSION": p.Version(version).String(), "NAMESPACE": p.Namespace}
}
