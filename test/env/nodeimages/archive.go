package nodeimages

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Images are images by the names that pods have for them. One image can have several.
type Images map[string]v1.Image

// Write writes an OCI archive, as "devcluster load-images" takes it.
func (i Images) Write(file string) error {
	output, err := os.Create(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("archive of images: %w", err)
	}
	archive := &archive{tar: tar.NewWriter(output), written: map[string]bool{}}
	if err := errors.Join(archive.all(i), archive.tar.Close(), output.Close()); err != nil {
		return fmt.Errorf("archive of images: %w", err)
	}
	return nil
}

type archive struct {
	tar *tar.Writer
	// written are the blobs that are in the archive.
	written map[string]bool
}

func (a *archive) all(images Images) error {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		described, err := a.image(images[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		described.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
		index.Manifests = append(index.Manifests, described)
	}
	text, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return errors.Join(a.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)), a.file("index.json", text))
}

// image writes the blobs of an image, and describes it.
func (a *archive) image(image v1.Image) (v1.Descriptor, error) {
	var described v1.Descriptor
	layers, err := image.Layers()
	if err != nil {
		return described, err
	}
	for _, layer := range layers {
		if err := a.layer(layer); err != nil {
			return described, err
		}
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return described, err
	}
	configName, err := image.ConfigName()
	if err != nil {
		return described, err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return described, err
	}
	if described.Digest, err = image.Digest(); err != nil {
		return described, err
	}
	if described.MediaType, err = image.MediaType(); err != nil {
		return described, err
	}
	described.Size = int64(len(manifest))
	return described, errors.Join(a.blob(configName, config), a.blob(described.Digest, manifest))
}

func (a *archive) layer(layer v1.Layer) error {
	digest, err := layer.Digest()
	if err != nil || a.written[digest.Hex] {
		return err
	}
	size, err := layer.Size()
	if err != nil {
		return err
	}
	content, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer content.Close()
	a.written[digest.Hex] = true
	if err := a.tar.WriteHeader(&tar.Header{Name: blobName(digest), Typeflag: tar.TypeReg, Mode: 0o444, Size: size}); err != nil {
		return err
	}
	_, err = io.Copy(a.tar, content)
	return err
}

func (a *archive) blob(digest v1.Hash, content []byte) error {
	if a.written[digest.Hex] {
		return nil
	}
	a.written[digest.Hex] = true
	return a.file(blobName(digest), content)
}

func (a *archive) file(name string, content []byte) error {
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o444, Size: int64(len(content))}
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := a.tar.Write(content)
	return err
}

func blobName(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }
