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

// Pull finds an image for an architecture in a registry that needs no password. It downloads a layer only when the caller writes the layer.
func Pull(ctx context.Context, pullSpec, architecture string) (v1.Image, error) {
	reference, err := name.ParseReference(pullSpec)
	if err != nil {
		return nil, fmt.Errorf("pull %s: %w", pullSpec, err)
	}
	found, err := remote.Image(reference, remote.WithContext(ctx), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
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
	added, err := layerOf(files)
	if err != nil {
		return nil, err
	}
	below, err := opm.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configuration of the base: %w", err)
	}
	if below.Architecture != about.Architecture || below.OS != "linux" {
		return nil, fmt.Errorf("the base is for %s/%s, want linux/%s: name a base with that platform", below.OS, below.Architecture, about.Architecture)
	}
	layers, err := opm.Layers()
	if err != nil {
		return nil, fmt.Errorf("layers of the base: %w", err)
	}
	configuration := below.Config.DeepCopy()
	configuration.Entrypoint, configuration.Cmd = []string{"/bin/opm"}, []string{"serve", "/" + catalog}
	configuration.Labels = about.labels()
	configuration.Labels[indexPath] = "/" + catalog
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: below.Architecture, Variant: below.Variant, OS: below.OS, Created: v1.Time{Time: epoch()}, Config: *configuration,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
	})
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	// A layer of Docker has the same bytes as one of OCI, but another media type. An index of OCI should have OCI's types.
	for _, layer := range append(layers, added) {
		base, err = mutate.Append(base, mutate.Addendum{
			Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: epoch()}, CreatedBy: "make catalog-image"},
		})
		if err != nil {
			return nil, fmt.Errorf("add a layer: %w", err)
		}
	}
	return base, nil
}
