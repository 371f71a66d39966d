package image

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Pull finds an image for an architecture in a registry. It downloads a layer only when the caller writes the layer. Without options, Pull can read
// only images that need no password.
func Pull(ctx context.Context, pullSpec, architecture string, options ...remote.Option) (v1.Image, error) {
	reference, err := name.ParseReference(pullSpec)
	if err != nil {
		return nil, fmt.Errorf("pull %s: %w", pullSpec, err)
	}
	options = append(options, remote.WithContext(ctx), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
	found, err := remote.Image(reference, options...)
	if err != nil {
		return nil, fmt.Errorf("pull %s for %s: %w", pullSpec, architecture, err)
	}
	return found, nil
}

// ServedCatalog puts a file-based catalog onto the image of opm, which is the program that serves the catalog. The image has no cache. At its
// start, opm writes a cache, which takes a second for a catalog of this size. With --cache-dir, opm would exit if there is no cache.
func ServedCatalog(about About, opm v1.Image, folder fs.FS) (v1.Image, error) {
	files, err := catalogFiles(about, folder)
	if err != nil {
		return nil, err
	}
	labels := about.labels()
	labels[indexPath] = "/" + catalog
	return onBase(about, opm, files, "make catalog-image", func(config *v1.Config) {
		config.Entrypoint, config.Cmd, config.Labels = []string{"/bin/opm"}, []string{"serve", "/" + catalog}, labels
	})
}

// gatherScript is the script that "oc adm must-gather" starts. oc passes the values of --since and --since-time in variables (openshift/oc 027f4a81,
// pkg/cli/admin/mustgather/mustgather.go, newPod).
const gatherScript = `#!/bin/bash
if [ -n "$MUST_GATHER_SINCE_TIME" ]; then
  echo "gather: --since-time is not supported, so all logs are collected: use --since" >&2
fi
exec /usr/bin/oc-storage collect --file /must-gather/oc-storage.tar.gz ${MUST_GATHER_SINCE:+--since "$MUST_GATHER_SINCE"}
`

// MustGather puts the plugin onto an image with a shell and tar. "oc adm must-gather" runs this image in its pods. In such a pod, bash starts
// /usr/bin/gather and waits for its end. Then oc copies the folder /must-gather with tar (openshift/oc 027f4a81,
// pkg/cli/admin/mustgather/mustgather.go, newPod).
func MustGather(about About, base v1.Image, plugin, sbom []byte) (v1.Image, error) {
	files := []File{
		about.license(),
		{Path: "usr/bin/gather", Mode: ModeProgram, Content: []byte(gatherScript)},
		{Path: "usr/bin/oc-storage", Mode: ModeProgram, Content: plugin},
		{Path: "usr/share/sbom/oc-storage.cdx.json", Mode: ModeFile, Content: sbom},
	}
	return onBase(about, base, files, "make must-gather-image", func(config *v1.Config) {
		config.Entrypoint, config.Cmd, config.Labels = []string{"/usr/bin/gather"}, nil, about.labels()
	})
}

// StorageTests puts the plugin and the folder with manifests for Kubernetes' storage tests onto an image with a shell and CA certificates. CI systems
// run the steps of their jobs in the new image.
func StorageTests(about About, base v1.Image, plugin, sbom []byte, manifests fs.FS) (v1.Image, error) {
	files, err := Folder(manifests, "opt/storage-tests")
	if err != nil {
		return nil, err
	}
	files = append(files, about.license(),
		File{Path: "usr/bin/oc-storage", Mode: ModeProgram, Content: plugin},
		File{Path: "usr/share/sbom/oc-storage.cdx.json", Mode: ModeFile, Content: sbom})
	return onBase(about, base, files, "make storage-tests-image", func(config *v1.Config) {
		config.User, config.WorkingDir, config.Labels = User, "/tmp", about.labels()
	})
}

// onBase adds a layer to an image, and changes the image's configuration.
func onBase(about About, below v1.Image, files []File, by string, change func(*v1.Config)) (v1.Image, error) {
	added, err := layerOf(files)
	if err != nil {
		return nil, err
	}
	config, err := below.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configuration of the base: %w", err)
	}
	if config.Architecture != about.Architecture || config.OS != "linux" {
		return nil, fmt.Errorf("the base is for %s/%s, want linux/%s: name a base with that platform", config.OS, config.Architecture, about.Architecture)
	}
	layers, err := below.Layers()
	if err != nil {
		return nil, fmt.Errorf("layers of the base: %w", err)
	}
	changed := config.Config.DeepCopy()
	change(changed)
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: config.Architecture, Variant: config.Variant, OS: config.OS, Created: v1.Time{Time: epoch()}, Config: *changed,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
	})
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	// A layer of Docker has the same bytes as a layer of OCI, but another media type. Change the media type, because an index of OCI should have the
	// types of OCI.
	for _, layer := range append(layers, added) {
		base, err = mutate.Append(base, mutate.Addendum{
			Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: epoch()}, CreatedBy: by},
		})
		if err != nil {
			return nil, fmt.Errorf("add a layer: %w", err)
		}
	}
	return base, nil
}
