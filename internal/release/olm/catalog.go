package olm

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/csi-operators/csi-operators/internal/release"
)

// The schemas of a file-based catalog.
const (
	packageSchema = "olm.package"
	channelSchema = "olm.channel"
	bundleSchema  = "olm.bundle"
)

// CatalogPackage is the entry of a package in a catalog.
type CatalogPackage struct {
	Schema         string `json:"schema"`
	Name           string `json:"name"`
	DefaultChannel string `json:"defaultChannel"`
	Icon           Icon   `json:"icon"`
	Description    string `json:"description"`
}

// CatalogChannel has the versions of a package in one channel, and the upgrades between these versions.
type CatalogChannel struct {
	Schema  string  `json:"schema"`
	Package string  `json:"package"`
	Name    string  `json:"name"`
	Entries []Entry `json:"entries"`
}

// Entry is one version, with the versions that a cluster can upgrade from.
type Entry struct {
	Name      string   `json:"name"`
	Replaces  string   `json:"replaces,omitempty"`
	Skips     []string `json:"skips,omitempty"`
	SkipRange string   `json:"skipRange,omitempty"`
}

// CatalogBundle is the entry of a version in a catalog. OLM reads everything else from the image of the bundle.
type CatalogBundle struct {
	Schema        string         `json:"schema"`
	Package       string         `json:"package"`
	Name          string         `json:"name"`
	Image         string         `json:"image"`
	Properties    []Property     `json:"properties"`
	RelatedImages []RelatedImage `json:"relatedImages"`
}

// The places of a package's parts in the catalog. Every version has its own file. Later releases do not change this file.
const (
	catalogPackageFile = "package.yaml"
	catalogChannels    = "channels"
	catalogBundles     = "bundles"
)

// ChannelFile returns the path of a channel's file from the package's folder in the catalog.
func ChannelFile(channel string) string { return path.Join(catalogChannels, channel+".yaml") }

// AddToCatalog adds a bundle to the catalog folder of its package. If the folder already has this version, AddToCatalog replaces it. It does not
// change other versions.
func AddToCatalog(files Files, bundle Files, r release.Release, p Package) error {
	found, problems := readBundle(bundle)
	if found.csv == nil {
		return errors.Join(append(problems, errors.New("the bundle has no ClusterServiceVersion"))...)
	}
	image, err := r.Find(p.ImageName())
	if err != nil {
		return err
	}
	name := found.csv.Metadata.Name
	description, _, _ := strings.Cut(strings.TrimPrefix(found.csv.Spec.Description, p.Preface), "\n")
	properties, err := found.properties(p)
	if err != nil {
		return err
	}
	related := append([]RelatedImage{{Name: p.ImageName(), Image: image.PullSpec()}}, found.csv.Spec.RelatedImages...)
	if err := files.put(path.Join(catalogBundles, "v"+found.csv.Spec.Version+".yaml"), CatalogBundle{
		Schema: bundleSchema, Package: p.Name, Name: name, Image: image.PullSpec(), Properties: properties, RelatedImages: related,
	}); err != nil {
		return err
	}
	entry := Entry{Name: name, Replaces: p.Replaces, SkipRange: found.csv.Metadata.Annotations[skipRangeAnnotation]}
	for _, channel := range channels(r.Version) {
		if err := files.addToChannel(channel, entry, p); err != nil {
			return err
		}
	}
	return files.put(catalogPackageFile, CatalogPackage{
		Schema: packageSchema, Name: p.Name, DefaultChannel: files.defaultChannel(), Icon: found.csv.Spec.Icon[0], Description: p.Preface + description,
	})
}

// addToChannel adds a version to a channel as its newest entry.
func (f Files) addToChannel(name string, entry Entry, p Package) error {
	channel, err := f.channel(name)
	if err != nil {
		return err
	}
	channel.Schema, channel.Package, channel.Name = channelSchema, p.Name, name
	channel.Entries = slices.DeleteFunc(channel.Entries, func(other Entry) bool { return other.Name == entry.Name })
	if len(channel.Entries) > 0 {
		entry.Replaces = channel.Entries[0].Name
	}
	// The newest entry comes first.
	channel.Entries = append([]Entry{entry}, channel.Entries...)
	return f.put(ChannelFile(name), channel)
}

// defaultChannel returns the channel that the console suggests. This is Stable as soon as the package has a release that is not a preview.
func (f Files) defaultChannel() string {
	if _, there := f[ChannelFile(Stable)]; there {
		return Stable
	}
	return Preview
}

// put adds a file, or replaces the existing file of this name.
func (f Files) put(name string, object any) error {
	delete(f, name)
	return f.add(name, object)
}

func (f Files) channel(name string) (CatalogChannel, error) {
	var channel CatalogChannel
	if text, there := f[ChannelFile(name)]; there {
		if err := unmarshal(text, &channel); err != nil {
			return channel, fmt.Errorf("%s: %w", ChannelFile(name), err)
		}
	}
	return channel, nil
}

// properties returns the properties of a bundle that OLM's resolver and the console read.
func (b bundle) properties(p Package) ([]Property, error) {
	properties := []Property{{Type: packageSchema, Value: map[string]string{"packageName": p.Name, "version": b.csv.Spec.Version}}}
	for _, owned := range b.csv.Spec.CRDs.Owned {
		crd := b.crds[owned.Name]
		if crd == nil {
			return nil, fmt.Errorf("%s: it owns CRD %s, but the bundle does not contain this CRD", b.csvFile, owned.Name)
		}
		properties = append(properties, Property{
			Type: "olm.gvk", Value: map[string]string{"group": crd.Spec.Group, "version": owned.Version, "kind": owned.Kind},
		})
	}
	var own []Property
	if err := decodeJSON(b.csv.Metadata.Annotations[propertyAnnotation], &own); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", b.csvFile, propertyAnnotation, err)
	}
	spec := b.csv.Spec
	return append(append(properties, own...), Property{Type: "olm.csv.metadata", Value: map[string]any{
		"annotations": b.csv.Metadata.Annotations, "labels": b.csv.Metadata.Labels, "displayName": spec.DisplayName,
		"description": spec.Description, "keywords": spec.Keywords, "links": spec.Links, "maintainers": spec.Maintainers,
		"maturity": spec.Maturity, "provider": spec.Provider, "minKubeVersion": spec.MinKubeVersion, "installModes": spec.InstallModes,
		"nativeAPIs": spec.NativeAPIs, "crdDescriptions": spec.CRDs,
	}}), nil
}

// versions has the versions of a package's bundles, by the name of the ClusterServiceVersion.
type versions map[string]semver.Version

// CheckCatalog checks a package's folder in the catalog. Its error has a sentence for each fault.
func CheckCatalog(files Files, p Package) error {
	var about CatalogPackage
	if err := unmarshal(files[catalogPackageFile], &about); err != nil {
		return fmt.Errorf("%s: %w", catalogPackageFile, err)
	}
	var problems []error
	if want := files.defaultChannel(); about.Schema != packageSchema || about.Name != p.Name || about.DefaultChannel != want {
		problems = append(problems, fmt.Errorf("%s: the package is %q with defaultChannel %q; want package %q with defaultChannel %q",
			catalogPackageFile, about.Name, about.DefaultChannel, p.Name, want))
	}
	if _, err := base64.StdEncoding.DecodeString(about.Icon.Data); err != nil || about.Icon.Data == "" {
		problems = append(problems, fmt.Errorf("%s: icon.base64data: it is not a picture in base64", catalogPackageFile))
	}
	found, failures := files.versions(p)
	problems = append(problems, failures...)
	for _, name := range []string{files.defaultChannel(), Preview} {
		problems = append(problems, files.checkChannel(name, found, p)...)
	}
	return errors.Join(problems...)
}

func (f Files) checkChannel(name string, found versions, p Package) []error {
	channel, err := f.channel(name)
	if err != nil {
		return []error{err}
	}
	var problems []error
	if channel.Schema != channelSchema || channel.Package != p.Name || channel.Name != name {
		problems = append(problems, fmt.Errorf("%s: it is channel %q of package %q, want %q of %q",
			ChannelFile(name), channel.Name, channel.Package, name, p.Name))
	}
	return append(problems, checkEdges(channel, ChannelFile(name), found, p)...)
}

// versions returns the versions of the bundles in a package's folder of the catalog.
func (f Files) versions(p Package) (versions, []error) {
	found := versions{}
	var problems []error
	for name, text := range f {
		if path.Dir(name) != catalogBundles {
			continue
		}
		version, bundle, err := readCatalogBundle(name, text, p)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		found[bundle.Name] = version
	}
	return found, problems
}

func readCatalogBundle(name string, text []byte, p Package) (semver.Version, CatalogBundle, error) {
	var bundle CatalogBundle
	if err := unmarshal(text, &bundle); err != nil {
		return semver.Version{}, bundle, fmt.Errorf("%s: %w", name, err)
	}
	version := ""
	for _, property := range bundle.Properties {
		if value, ok := property.Value.(map[string]any); ok && property.Type == packageSchema {
			version, _ = value["version"].(string)
		}
	}
	parsed, err := semver.Parse(version)
	switch {
	case err != nil:
		return parsed, bundle, fmt.Errorf("%s: properties: the package's version is missing or invalid: %w", name, err)
	case bundle.Schema != bundleSchema || bundle.Package != p.Name || bundle.Name != p.Name+".v"+version:
		return parsed, bundle, fmt.Errorf("%s: this is bundle %q of package %q, want %s.v%s", name, bundle.Name, bundle.Package, p.Name, version)
	case path.Base(name) != "v"+version+".yaml":
		return parsed, bundle, fmt.Errorf("%s: it has version %s", name, version)
	case bundle.Image == "" || len(bundle.RelatedImages) < 2 || bundle.RelatedImages[0].Image != bundle.Image:
		return parsed, bundle, fmt.Errorf("%s: image: %q is missing among the relatedImages", name, bundle.Image)
	}
	return parsed, bundle, nil
}

// ReadFiles reads a folder and its subfolders. If the folder does not exist, the result has no files.
func ReadFiles(repository fs.FS, folder string) (Files, error) {
	files := Files{}
	err := fs.WalkDir(repository, folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || entry.IsDir():
			return err
		}
		files[strings.TrimPrefix(name, folder+"/")], err = fs.ReadFile(repository, name)
		return err //nolint:wrapcheck // It names the file.
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", folder, err)
	}
	return files, nil
}
