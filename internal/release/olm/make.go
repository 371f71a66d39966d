package olm

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/csi-operators/csi-operators/internal/release"
)

// Make writes the bundles, the catalog and the lists for mirrors into a tree, for the version of the tree. If there is any fault, Make writes
// nothing. The tree is this repository, or the separate tree of another driver, which has a PackageFile.
func Make(root string) error {
	repository := os.DirFS(root)
	current, err := release.Load(repository)
	if err != nil {
		return err
	}
	made, err := makeAll(repository, current, StoredFile)
	if err != nil {
		return err
	}
	return write(root, made)
}

// Release gives the repository a new version, and adds this version to the catalog. It does not change the other versions in the catalog. It also
// stores the CRD of the previous version, because clusters can have that CRD before they upgrade to the new version.
func Release(root, version string) error {
	repository := os.DirFS(root)
	before, err := release.Load(repository)
	if err != nil {
		return err
	}
	next, err := release.ParseVersion(version)
	if err != nil {
		return err
	}
	if !before.Version.LT(next) {
		return fmt.Errorf("version %s is not newer than version %s in file %s", next, before.Version, release.VersionFile)
	}
	packages, err := packagesOf(repository)
	if err != nil {
		return err
	}
	versions := Files{release.VersionFile: []byte(next.String() + "\n")}
	stored := path.Join(Bundles, packages[0].Name, "manifests", crdName+".crd.yaml")
	if packages[0].defines() {
		if versions[StoredFile], err = fs.ReadFile(repository, stored); err != nil {
			return fmt.Errorf("the CRD of version %s: %w: run make bundle first", before.Version, err)
		}
	}
	if err := before.CheckDigests(); err != nil {
		return err
	}
	images, err := fs.ReadFile(repository, release.ImagesFile)
	if err != nil {
		return fmt.Errorf("images of the release: %w", err)
	}
	versions[release.ImagesFile] = []byte(release.WithoutOwnDigests(string(images)))
	current, err := release.Parse(versions[release.ImagesFile], next)
	if err != nil {
		return err
	}
	made, err := makeAll(repository, current, stored)
	if err != nil {
		return err
	}
	if err := write(root, made); err != nil {
		return err
	}
	return write(root, map[string]Files{".": versions})
}

// CheckRelease refuses the release of a tree if an image of the operator's pods, or a base image, has no digest.
func CheckRelease(root string) error {
	current, err := release.Load(os.DirFS(root))
	if err != nil {
		return err
	}
	return current.CheckDigests()
}

// crdName is the name of the CRD that this repository's packages own.
const crdName = "sharedvolumes.aws-efs.managed.openshift.io"

// makeAll makes and checks the contents of each folder.
func makeAll(repository fs.FS, current release.Release, stored string) (map[string]Files, error) {
	packages, err := packagesOf(repository)
	if err != nil {
		return nil, err
	}
	made := map[string]Files{}
	var problems []error
	for _, p := range packages {
		bundle, catalog, err := makePackage(repository, current, p, stored)
		if err != nil {
			problems = append(problems, fmt.Errorf("package %s:\n%w", p.Name, err))
			continue
		}
		made[path.Join(Bundles, p.Name)], made[path.Join(Catalog, p.Name)] = bundle, catalog
	}
	lists, err := Mirror(current, packages)
	problems = append(problems, err)
	installation, err := Installation(repository, current, packages[0])
	made[path.Join(Bundles, "disconnected")], made[path.Join(Bundles, "install")] = lists, installation
	return made, errors.Join(append(problems, err)...)
}

func makePackage(repository fs.FS, current release.Release, p Package, stored string) (Files, Files, error) {
	expected, err := Expect(repository, current, p, stored)
	if err != nil {
		return nil, nil, err
	}
	bundle, err := Generate(repository, current, p)
	if err != nil {
		return nil, nil, err
	}
	if err := Check(bundle, expected); err != nil {
		return nil, nil, err
	}
	catalog, err := ReadFiles(repository, path.Join(Catalog, p.Name))
	if err != nil {
		return nil, nil, err
	}
	if err := AddToCatalog(catalog, bundle, current, p); err != nil {
		return nil, nil, err
	}
	return bundle, catalog, CheckCatalog(catalog, p)
}

// write writes files into folders. It first empties each folder except the root, so no file of an older version remains.
func write(root string, folders map[string]Files) error {
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if folder != "." {
			if err := os.RemoveAll(filepath.Join(root, filepath.FromSlash(folder))); err != nil {
				return fmt.Errorf("empty %s: %w", folder, err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(folders[folder])) {
			target := filepath.Join(root, filepath.FromSlash(folder), filepath.FromSlash(name))
			//nolint:gosec // Everybody may read what is published.
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				return fmt.Errorf("folder of %s: %w", name, err)
			}
			//nolint:gosec // Everybody may read what is published.
			if err := os.WriteFile(target, folders[folder][name], 0o644); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
		}
	}
	return nil
}
