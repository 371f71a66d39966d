package image_test

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

// opm is an image as upstream's: Docker's media types, a user and a path of its own.
func opm(t *testing.T, architecture string) v1.Image {
	t.Helper()
	built := must[v1.Image](t)(image.Build(image.Image{
		Files: []image.File{{Path: "bin/opm", Mode: image.ModeProgram}, {Path: "bin/grpc_health_probe", Mode: image.ModeProgram}},
		Env:   []string{"PATH=/bin"}, Architecture: architecture,
	}))
	layers := must[[]v1.Layer](t)(built.Layers())
	config := must[*v1.ConfigFile](t)(built.ConfigFile()).DeepCopy()
	config.Config.User, config.RootFS.DiffIDs, config.History = "1001", nil, nil
	base := must[v1.Image](t)(mutate.ConfigFile(empty.Image, config))
	return must[v1.Image](t)(mutate.Append(base, mutate.Addendum{Layer: layers[0], MediaType: types.DockerLayer}))
}

// registryWith serves an index of images under a name.
func registryWith(t *testing.T, images ...v1.Image) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	pullSpec := strings.TrimPrefix(server.URL, "http://") + "/opm:v1.2.3"
	var index v1.ImageIndex = empty.Index
	for _, one := range images {
		platform := must[*v1.ConfigFile](t)(one.ConfigFile()).Platform()
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: platform}})
	}
	if err := remote.WriteIndex(must[name.Reference](t)(name.ParseReference(pullSpec)), index); err != nil {
		t.Fatal(err)
	}
	return pullSpec
}

func TestAServedCatalogHasOPMAndTheCatalog(t *testing.T) {
	files := fstest.MapFS{"thing/catalog.yaml": {Data: []byte("schema: olm.package\n")}}
	pullSpec := registryWith(t, opm(t, "amd64"), opm(t, "arm64"))
	var digests []v1.Hash
	for range 2 {
		base := must[v1.Image](t)(image.Pull(t.Context(), pullSpec, "arm64"))
		built := must[v1.Image](t)(image.ServedCatalog(about("arm64"), base, files))
		digests = append(digests, must[v1.Hash](t)(built.Digest()))
		folder := t.TempDir()
		must[image.Written](t)(image.WriteLayout(folder, "example.com/thing:v1.2.3", []v1.Image{built}))
		if err := validate.Index(must[v1.ImageIndex](t)(layout.ImageIndexFromPath(folder))); err != nil {
			t.Error(err)
		}
		found := entries(t, built)
		for _, path := range []string{"bin/opm", "bin/grpc_health_probe", "configs/thing/catalog.yaml", "licenses/LICENSE"} {
			if found[path] == nil {
				t.Errorf("the image has no /%s", path)
			}
		}
		config := must[*v1.ConfigFile](t)(built.ConfigFile())
		want := v1.Config{
			// Without --cache-dir: opm would end, because the image has no cache.
			Entrypoint: []string{"/bin/opm"}, Cmd: []string{"serve", "/configs"},
			User: "1001", Env: []string{"PATH=/bin"}, WorkingDir: "/", Labels: config.Config.Labels,
		}
		if diff := cmp.Diff(want, config.Config); diff != "" || config.Architecture != "arm64" {
			t.Errorf("architecture %s, configuration (-want +got):\n%s", config.Architecture, diff)
		}
		if config.Config.Labels["operators.operatorframework.io.index.configs.v1"] != "/configs" {
			t.Errorf("labels are %v", config.Config.Labels)
		}
		for _, layer := range must[*v1.Manifest](t)(built.Manifest()).Layers {
			if layer.MediaType != types.OCILayer {
				t.Errorf("a layer is %s", layer.MediaType)
			}
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds of the same differ: %v", digests)
	}
}

func TestWhatIsWrongWithTheImageOfOPMIsNamed(t *testing.T) {
	files := fstest.MapFS{"thing/catalog.yaml": {}}
	if _, err := image.ServedCatalog(about("amd64"), opm(t, "s390x"), files); err == nil || !strings.Contains(err.Error(), "the base is for linux/s390x") {
		t.Errorf("another architecture: %v", err)
	}
	pullSpec := registryWith(t, opm(t, "amd64"))
	for spec, want := range map[string]string{
		pullSpec: "for arm64", strings.Replace(pullSpec, ":v1", ":v9", 1): "pull ", "Not An Image": "Not An Image",
	} {
		if _, err := image.Pull(t.Context(), spec, "arm64"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("pull %s: error is %v, want %q", spec, err, want)
		}
	}
}
