package image_test

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

func about(architecture string) image.About {
	return image.About{Title: "thing", Version: "1.2.3", License: []byte("free\n"), Architecture: architecture}
}

func annotations() string {
	return `annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: thing
`
}

func bundle() fstest.MapFS {
	return fstest.MapFS{
		"manifests/thing.clusterserviceversion.yaml": {Data: []byte("kind: ClusterServiceVersion\n"), Mode: 0o666},
		"manifests/crd.yaml":                         {Data: []byte("kind: CustomResourceDefinition\n")},
		"metadata/annotations.yaml":                  {Data: []byte(annotations())},
		"README.md":                                  {Data: []byte("not a part of the image")},
	}
}

// entries are the headers in an image, by path.
func entries(t *testing.T, built v1.Image) map[string]*tar.Header {
	t.Helper()
	content := mutate.Extract(built)
	defer content.Close()
	reader, found := tar.NewReader(content), map[string]*tar.Header{}
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = header
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestAProgramIsAllThatItsImageHas(t *testing.T) {
	built := must[v1.Image](t)(image.Program(about("arm64"), "thing", []byte("\x7fELF"), []byte("{}")))
	modes := map[string]string{}
	for path, header := range entries(t, built) {
		modes[path] = header.FileInfo().Mode().String()
		if header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s: owner %d:%d, time %v; want 0:0 and 1970", path, header.Uid, header.Gid, header.ModTime)
		}
	}
	want := map[string]string{
		"licenses": "drwxr-xr-x", "licenses/LICENSE": "-r--r--r--", "usr": "drwxr-xr-x", "usr/bin": "drwxr-xr-x", "usr/bin/thing": "-r-xr-xr-x",
		"usr/share": "drwxr-xr-x", "usr/share/sbom": "drwxr-xr-x", "usr/share/sbom/thing.cdx.json": "-r--r--r--",
	}
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
	config := must[*v1.ConfigFile](t)(built.ConfigFile())
	if config.Architecture != "arm64" || config.OS != "linux" {
		t.Errorf("platform is %s", config.Platform())
	}
	wantConfig := v1.Config{
		User: "65532:65532", Entrypoint: []string{"/usr/bin/thing"}, Env: []string{"PATH=/usr/bin"}, WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title": "thing", "org.opencontainers.image.version": "1.2.3",
			"org.opencontainers.image.source":   "https://github.com/csi-operators/csi-operators",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if diff := cmp.Diff(wantConfig, config.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestABundleHasItsAnnotationsAsLabels(t *testing.T) {
	built := must[v1.Image](t)(image.Bundle(about("amd64"), bundle()))
	labels := must[*v1.ConfigFile](t)(built.ConfigFile()).Config.Labels
	for key, want := range map[string]string{
		"operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
		"operators.operatorframework.io.bundle.package.v1":   "thing",
		"org.opencontainers.image.version":                   "1.2.3",
	} {
		if labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, labels[key], want)
		}
	}
	found := entries(t, built)
	for _, path := range []string{"manifests/crd.yaml", "manifests/thing.clusterserviceversion.yaml", "metadata/annotations.yaml", "licenses/LICENSE"} {
		// What the folder's files may do on the builder's machine plays no role.
		if found[path] == nil || found[path].FileInfo().Mode() != 0o444 {
			t.Errorf("%s: %+v", path, found[path])
		}
	}
	if len(found) != 7 {
		t.Errorf("the image has %d folders and files, want 7: %v", len(found), found)
	}
}

// The digest of the layer is written down: a change of it means that images are packed otherwise, for everybody. It is that of the
// uncompressed layer, as another version of Go may compress otherwise.
func TestTheSameFilesAreTheSameLayerOnEveryMachine(t *testing.T) {
	built := must[v1.Image](t)(image.Bundle(about("amd64"), bundle()))
	const want = "sha256:6ee12d2242de2713373a56a8f6369ec3d42d2cae0088af442ce99e573d82d7c5"
	if layers := must[*v1.ConfigFile](t)(built.ConfigFile()).RootFS.DiffIDs; len(layers) != 1 || layers[0].String() != want {
		t.Errorf("layers are %v, want %s", layers, want)
	}
}

func TestACatalogSaysWhereItsFilesAre(t *testing.T) {
	built := must[v1.Image](t)(image.Catalog(about("amd64"), fstest.MapFS{"thing/catalog.yaml": {Data: []byte("schema: olm.package\n")}}))
	if got := must[*v1.ConfigFile](t)(built.ConfigFile()).Config.Labels["operators.operatorframework.io.index.configs.v1"]; got != "/configs" {
		t.Errorf("the label says %q", got)
	}
	if entries(t, built)["configs/thing/catalog.yaml"] == nil {
		t.Error("the catalog is not at /configs")
	}
}

func TestWhatIsWrongWithAFolderIsNamed(t *testing.T) {
	without := func(name string) fstest.MapFS {
		files := bundle()
		delete(files, name)
		return files
	}
	with := func(name, text string) fstest.MapFS {
		files := bundle()
		files[name] = &fstest.MapFile{Data: []byte(text)}
		return files
	}
	for name, example := range map[string]struct {
		build  func(image.About, fs.FS) (v1.Image, error)
		folder fstest.MapFS
		want   string
	}{
		"no annotations":    {image.Bundle, without("metadata/annotations.yaml"), "metadata/annotations.yaml"},
		"other media type":  {image.Bundle, with("metadata/annotations.yaml", strings.Replace(annotations(), "registry+v1", "plain+v0", 1)), `mediatype.v1 is "plain+v0"`},
		"no manifests":      {image.Bundle, fstest.MapFS{"metadata/annotations.yaml": {Data: []byte(annotations())}}, "/manifests"},
		"a symbolic link":   {image.Bundle, fstest.MapFS{"metadata/annotations.yaml": {Data: []byte(annotations())}, "manifests/a": {Mode: fs.ModeSymlink}}, "neither a file"},
		"a kubeconfig":      {image.Bundle, with("manifests/kubeconfig", "x"), "/manifests/kubeconfig: the file holds credentials"},
		"an empty catalog":  {image.Catalog, fstest.MapFS{}, "the folder is empty"},
		"text in a catalog": {image.Catalog, fstest.MapFS{"a.txt": {}}, "/configs/a.txt is not YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := example.build(about("amd64"), example.folder); err == nil || !strings.Contains(err.Error(), example.want) {
				t.Errorf("error is %v, want %q", err, example.want)
			}
		})
	}
}

func TestALayoutHasAnImageForEachArchitectureAndAFixedDigest(t *testing.T) {
	var digests []string
	folder := filepath.Join(t.TempDir(), "layout")
	for range 2 {
		var built []v1.Image
		for _, architecture := range []string{"amd64", "arm64"} {
			built = append(built, must[v1.Image](t)(image.Bundle(about(architecture), bundle())))
		}
		written := must[image.Written](t)(image.WriteLayout(folder, "example.com/thing:v1.2.3", built))
		digests = append(digests, written.Digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds of the same differ: %v", digests)
	}
	index := must[v1.ImageIndex](t)(layout.ImageIndexFromPath(folder))
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest := must[*v1.IndexManifest](t)(index.IndexManifest())
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "example.com/thing:v1.2.3" {
		t.Fatalf("the layout has %+v", manifest.Manifests)
	}
	images := must[v1.ImageIndex](t)(index.ImageIndex(manifest.Manifests[0].Digest))
	var platforms []string
	for _, image := range must[*v1.IndexManifest](t)(images.IndexManifest()).Manifests {
		platforms = append(platforms, image.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Error(diff)
	}
}
