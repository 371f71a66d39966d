package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// User is the user of our images. It is a number, so that a kubelet can verify that the user is not root. OpenShift replaces it with a user from
// the namespace's range, so no file must depend on this user.
const User = "65532:65532"

// Image is the input of Build.
type Image struct {
	Files      []File
	Entrypoint []string
	// Env are variables as NAME=value.
	Env    []string
	Labels map[string]string
	// Architecture is the name that Go uses. An image without a program also has an architecture, because container engines ask for it.
	Architecture string
}

// Build builds an image of one layer, from scratch. The result does not depend on time, place or user.
func Build(image Image) (v1.Image, error) {
	layer, err := layerOf(image.Files)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: image.Architecture, OS: "linux", Created: v1.Time{Time: epoch()},
		Config: v1.Config{User: User, Entrypoint: image.Entrypoint, Env: image.Env, Labels: image.Labels, WorkingDir: "/"},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
	})
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	built, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: epoch()}, CreatedBy: "make images"},
	})
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	return built, nil
}

// layerOf packs files into a layer. It refuses forbidden files.
func layerOf(files []File) (v1.Layer, error) {
	if err := checkFiles(files); err != nil {
		return nil, err
	}
	text, err := archive(files)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	return layer, nil
}

// epoch returns the creation time of everything in our images, for reproducible builds.
func epoch() time.Time { return time.Unix(0, 0).UTC() }

// archive packs folders and files into a tar archive. It sorts them, and makes root their owner.
func archive(files []File) ([]byte, error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	var text bytes.Buffer
	writer := tar.NewWriter(&text)
	for _, folder := range parents(files) {
		if err := writer.WriteHeader(header(folder+"/", tar.TypeDir, modeFolder)); err != nil {
			return nil, fmt.Errorf("folder /%s: %w", folder, err)
		}
	}
	for _, file := range files {
		entry := header(file.Path, tar.TypeReg, file.Mode)
		entry.Size = int64(len(file.Content))
		if err := writer.WriteHeader(entry); err != nil {
			return nil, fmt.Errorf("file /%s: %w", file.Path, err)
		}
		if _, err := writer.Write(file.Content); err != nil {
			return nil, fmt.Errorf("file /%s: %w", file.Path, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("end of the layer: %w", err)
	}
	return text.Bytes(), nil
}

func header(name string, kind byte, mode fs.FileMode) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Mode: int64(mode), ModTime: epoch(), Format: tar.FormatPAX}
}
