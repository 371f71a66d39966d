package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Written describes the result of WriteLayout.
type Written struct {
	// Digest is the digest of the index. A registry serves the index under the image's name.
	Digest string
	// Size is the compressed size, in bytes, of the largest image. A node downloads at most this much.
	Size int64
}

// WriteLayout writes an OCI layout with one image for each architecture. It replaces the content of the folder. Parameter name is the pull spec under
// which tools such as skopeo push the layout.
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
	// If the folder stayed, blobs of an earlier build would stay beside the new blobs.
	if err := os.RemoveAll(folder); err != nil {
		return written, fmt.Errorf("remove the previous layout: %w", err)
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

// Unpack writes the files of an image under a folder.
func Unpack(image v1.Image, folder string) error {
	//nolint:gosec // A container engine makes it the root of an image, which every user must be able to read.
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	// With this root, no path in the image can lead out of the folder.
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer root.Close() //nolint:errcheck // A folder is only closed.
	content := mutate.Extract(image)
	defer content.Close() //nolint:errcheck // It was read to its end, or an error says that it was not.
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		if err := unpackOne(root, header, reader); err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
	}
}

func unpackOne(root *os.Root, header *tar.Header, content io.Reader) error {
	name, mode := path.Clean(header.Name), header.FileInfo().Mode().Perm()
	if header.Typeflag == tar.TypeDir {
		if err := root.MkdirAll(name, mode); err != nil {
			return err //nolint:wrapcheck // It names the folder.
		}
		return root.Chmod(name, mode) //nolint:wrapcheck // It names the folder.
	}
	if header.Typeflag != tar.TypeReg {
		return fmt.Errorf("/%s is neither a file nor a folder", name)
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err //nolint:wrapcheck // It names the file.
	}
	_, err = io.Copy(file, content)
	// The user's umask changes the mode of a new file, so set the mode again.
	return errors.Join(err, file.Chmod(mode), file.Close())
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
