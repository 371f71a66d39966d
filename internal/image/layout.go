package image

import (
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Written is what WriteLayout has written.
type Written struct {
	// Digest is that of the index, which a registry serves under the image's name.
	Digest string
	// Size is what a node downloads: the largest of the images, compressed.
	Size int64
}

// WriteLayout writes an OCI layout with one image for each architecture, in place of what is in the folder. name is the pull
// spec, under which tools such as skopeo push it.
func WriteLayout(folder, name string, images []v1.Image) (Written, error) {
	var index v1.ImageIndex = empty.Index
	var written Written
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return written, fmt.Errorf("%s: %w", name, err)
		}
		size, err := compressedSize(image)
		if err != nil {
			return written, fmt.Errorf("%s: %w", name, err)
		}
		written.Size = max(written.Size, size)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()},
		})
	}
	digest, err := index.Digest()
	if err != nil {
		return written, fmt.Errorf("%s: %w", name, err)
	}
	written.Digest = digest.String()
	// Blobs of an earlier build would stay beside the new ones.
	if err := os.RemoveAll(folder); err != nil {
		return written, fmt.Errorf("remove the last layout: %w", err)
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return written, fmt.Errorf("write %s: %w", folder, err)
	}
	annotation := map[string]string{"org.opencontainers.image.ref.name": name}
	if err := path.AppendIndex(index, layout.WithAnnotations(annotation)); err != nil {
		return written, fmt.Errorf("write %s: %w", folder, err)
	}
	return written, nil
}

func compressedSize(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, fmt.Errorf("manifest: %w", err)
	}
	size := manifest.Config.Size
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return size, nil
}
