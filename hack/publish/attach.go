package main

import (
	"archive/tar"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

// sbomType is the media type of an SBOM (sigstore/cosign v2.6.5, pkg/types/media.go, CycloneDXJSONMediaType).
const sbomType = "application/vnd.cyclonedx+json"

// attach pushes SBOMs and signatures, before push sets the tags of the images. The image of each architecture gets an SBOM. With a key, attach also
// signs each index, the image of each architecture, and each SBOM, because some programs verify the signature of the index, and others the signature
// of an image.
func (c registryClient) attach(ctx context.Context, key *ecdsa.PrivateKey, images []built) error {
	for _, image := range images {
		list, err := image.index.IndexManifest()
		if err != nil {
			return fmt.Errorf("SBOM of %s: %w", image.Name, err)
		}
		digests := []string{image.digest}
		for _, one := range list.Manifests {
			attached, err := c.attachSBOM(ctx, image, one.Digest)
			if err != nil {
				return err
			}
			digests = append(digests, one.Digest.String(), attached)
		}
		if key == nil {
			continue
		}
		for _, digest := range digests {
			if err := c.sign(ctx, key, image, digest); err != nil {
				return err
			}
		}
	}
	return nil
}

// attachSBOM pushes the SBOM of an image under a tag with the digest of the image, where "cosign download sbom" looks for it (sigstore/cosign v2.6.5,
// pkg/oci/static/file.go, NewFile, and pkg/oci/remote/remote.go, SBOMTag). It returns the digest of what it has pushed.
func (c registryClient) attachSBOM(ctx context.Context, of built, digest v1.Hash) (string, error) {
	described, err := of.index.Image(digest)
	if err != nil {
		return "", fmt.Errorf("SBOM of %s: %w", of.Name, err)
	}
	text, err := sbomOf(described, of)
	if err != nil {
		return "", fmt.Errorf("SBOM of %s: %w", of.Name, err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	file, err := mutate.Append(base, mutate.Addendum{Layer: static.NewLayer(text, sbomType)})
	if err != nil {
		return "", fmt.Errorf("SBOM of %s: %w", of.Name, err)
	}
	return c.pushBeside(ctx, of, digest.String(), "sbom", file)
}

// pushBeside pushes image "attached" into the repository of image "of", and returns the digest of "attached". The tag has the given digest and
// suffix.
func (c registryClient) pushBeside(ctx context.Context, of built, digest, suffix string, attached v1.Image) (string, error) {
	tag, err := name.NewTag(of.Repository() + ":" + strings.Replace(digest, ":", "-", 1) + "." + suffix)
	if err != nil {
		return "", fmt.Errorf("%s of %s: %w", suffix, of.Name, err)
	}
	own, err := attached.Digest()
	if err != nil {
		return "", fmt.Errorf("%s of %s: %w", suffix, of.Name, err)
	}
	if err := remote.Write(tag, attached, c.options(ctx)...); err != nil {
		return "", fmt.Errorf("push %s: no image has its tag yet, so you can repeat the same command: %w", tag, err)
	}
	return own.String(), nil
}

// sbomOf returns the SBOM that the builder has put into the image of a program. Images without a program, such as catalogs, have no such SBOM. For
// these images, sbomOf makes an SBOM that names only the image.
func sbomOf(described v1.Image, of built) ([]byte, error) {
	layers, err := described.Layers()
	if err != nil || len(layers) == 0 {
		return nil, fmt.Errorf("it has %d layers (%w)", len(layers), err)
	}
	// The builder adds one layer, and it is the last.
	content, err := layers[len(layers)-1].Uncompressed()
	if err != nil {
		return nil, fmt.Errorf("read the last layer: %w", err)
	}
	defer content.Close() //nolint:errcheck // It is only read.
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			_, version, _ := strings.Cut(of.Image.Image[len(of.Repository()):], ":")
			return image.SBOMWithoutProgram(of.Name, version)
		}
		if err != nil {
			return nil, fmt.Errorf("read the last layer: %w", err)
		}
		if found, _ := path.Match("usr/share/sbom/*.cdx.json", strings.TrimPrefix(header.Name, "./")); found {
			text, err := io.ReadAll(reader)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", header.Name, err)
			}
			return text, nil
		}
	}
}
