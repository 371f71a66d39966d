package image

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"
)

const (
	source    = "https://github.com/csi-operators/csi-operators"
	catalog   = "configs"
	indexPath = "operators.operatorframework.io.index.configs.v1"
)

// About has the data for the labels of all images.
type About struct {
	Title, Version string
	// License is the licence's text.
	License []byte
	// Architecture is a value of GOARCH.
	Architecture string
	// Build are labels about the build of the program: see BuildLabels.
	Build map[string]string
}

// labels returns labels without a date and without a revision. With a date or a revision, an image with the same content would get another digest
// after each commit.
func (a About) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":    a.Title,
		"org.opencontainers.image.version":  a.Version,
		"org.opencontainers.image.source":   source,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	maps.Copy(labels, a.Build)
	return labels
}

func (a About) license() File {
	return File{Path: "licenses/LICENSE", Mode: ModeFile, Content: a.License}
}

// Program builds the image of a statically linked Go program, with its SBOM.
//
// The image has no CA roots. The API server's CA comes with the ServiceAccount, and the program itself contains the roots for AWS. The program's list
// of modules shows how old these roots are. A file at etc/pki/tls/certs/ca-bundle.crt overrides the roots, so pods can mount OpenShift's injected
// bundle there. The image has no /tmp either. A pod that needs /tmp mounts a volume there.
func Program(about About, name string, binary, sbom []byte) (v1.Image, error) {
	program := path.Join("usr/bin", name)
	built, err := Build(Image{
		Files: []File{
			about.license(),
			{Path: program, Mode: ModeProgram, Content: binary},
			{Path: path.Join("usr/share/sbom", name+".cdx.json"), Mode: ModeFile, Content: sbom},
		},
		// Pods name the program without its folder, so the folder is in PATH.
		Entrypoint: []string{"/" + program}, Env: []string{"PATH=/usr/bin"},
		Labels: about.labels(), Architecture: about.Architecture,
	})
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", name, err)
	}
	return built, nil
}

// Bundle makes the image of an OLM bundle (registry+v1). The image has the manifests and the metadata. The annotations in the metadata are also
// labels of the image.
func Bundle(about About, bundle fs.FS) (v1.Image, error) {
	annotations, err := bundleAnnotations(bundle)
	if err != nil {
		return nil, err
	}
	files := []File{about.license()}
	for _, name := range []string{"manifests", "metadata"} {
		folder, err := fs.Sub(bundle, name)
		if err != nil {
			return nil, fmt.Errorf("bundle: %w", err)
		}
		found, err := Folder(folder, name)
		if err != nil {
			return nil, fmt.Errorf("bundle: %w", err)
		}
		files = append(files, found...)
	}
	labels := about.labels()
	for key, value := range annotations {
		labels[key] = value
	}
	return Build(Image{Files: files, Labels: labels, Architecture: about.Architecture})
}

func bundleAnnotations(bundle fs.FS) (map[string]string, error) {
	const name, prefix = "metadata/annotations.yaml", "operators.operatorframework.io.bundle."
	text, err := fs.ReadFile(bundle, name)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := yaml.Unmarshal(text, &metadata); err != nil {
		return nil, fmt.Errorf("bundle: %s: %w", name, err)
	}
	for key, want := range map[string]string{
		"mediatype.v1": "registry+v1", "manifests.v1": "manifests/", "metadata.v1": "metadata/",
	} {
		if got := metadata.Annotations[prefix+key]; got != want {
			return nil, fmt.Errorf("bundle: %s: %s is %q, want %q: OLM would not find what is in the image", name, prefix+key, got, want)
		}
	}
	return metadata.Annotations, nil
}

// Catalog makes the image of a file-based catalog, which contains only files. OLM extracts the files into a pod that serves them, if the
// CatalogSource has spec.grpcPodConfig.extractContent.catalogDir: /configs.
func Catalog(about About, folder fs.FS) (v1.Image, error) {
	files, err := catalogFiles(about, folder)
	if err != nil {
		return nil, err
	}
	labels := about.labels()
	labels[indexPath] = "/" + catalog
	return Build(Image{Files: files, Labels: labels, Architecture: about.Architecture})
}

// catalogFiles returns the files of a file-based catalog.
func catalogFiles(about About, folder fs.FS) ([]File, error) {
	files, err := Folder(folder, catalog)
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Path, ".yaml") && !strings.HasSuffix(file.Path, ".json") && path.Base(file.Path) != ".indexignore" {
			return nil, fmt.Errorf("catalog: /%s is not YAML or JSON: OLM could not read the catalog", file.Path)
		}
	}
	return append(files, about.license()), nil
}
