package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	// PauseImage is the name of the image for the sandbox of each pod.
	PauseImage = "devcluster.local/pause:1"
	// BusyboxImage is an image for tests.
	BusyboxImage = "devcluster.local/busybox:1"

	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// image is an image with a name, one layer, and a command.
type image struct {
	name    string
	command []string
	files   []tarFile
}

// tarFile is a file in a tar archive. It has either data, or the target of a link.
type tarFile struct {
	name, link string
	data       []byte
}

// writeImages writes devcluster's own images into one archive (OCI image layout).
func writeImages(archive string) error {
	images, err := ownImages()
	if err != nil {
		return err
	}
	layout := []tarFile{{name: "oci-layout", data: []byte(`{"imageLayoutVersion": "1.0.0"}`)}}
	var manifests []any
	for _, i := range images {
		blobs, manifest, err := i.blobs()
		if err != nil {
			return err
		}
		layout, manifests = append(layout, blobs...), append(manifests, manifest)
	}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": manifests})
	if err != nil {
		return fmt.Errorf("describe the images: %w", err)
	}
	data, err := pack(append(layout, tarFile{name: "index.json", data: index}))
	if err != nil {
		return err
	}
	if err := os.WriteFile(archive, data, 0o600); err != nil {
		return fmt.Errorf("write the images: %w", err)
	}
	return nil
}

func ownImages() ([]image, error) {
	pause, err := os.ReadFile(filepath.Join(programDir, "node", "pause"))
	if err != nil {
		return nil, fmt.Errorf("make the image %s: %w", PauseImage, err)
	}
	path := filepath.Join(programDir, "busybox")
	busybox, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("make the image %s: %w", BusyboxImage, err)
	}
	names, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the commands of busybox: %w", err)
	}
	files := []tarFile{{name: "bin/busybox", data: busybox}}
	for name := range strings.FieldsSeq(string(names)) {
		if name != "busybox" {
			files = append(files, tarFile{name: "bin/" + name, link: "busybox"})
		}
	}
	return []image{
		{name: PauseImage, command: []string{"/pause"}, files: []tarFile{{name: "pause", data: pause}}},
		{name: BusyboxImage, command: []string{"/bin/sh"}, files: files},
	}, nil
}

// blobs returns the files of an image, and the image's entry in the index.
func (i image) blobs() ([]tarFile, any, error) {
	layer, err := pack(i.files)
	if err != nil {
		return nil, nil, err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Cmd": i.command, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("describe the image %s: %w", i.name, err)
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": descriptor(configType, config), "layers": []any{descriptor(layerType, layer)},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("describe the image %s: %w", i.name, err)
	}
	entry := descriptor(manifestType, manifest)
	entry["annotations"] = map[string]string{"io.containerd.image.name": i.name}
	var blobs []tarFile
	for _, data := range [][]byte{layer, config, manifest} {
		blobs = append(blobs, tarFile{name: "blobs/sha256/" + strings.TrimPrefix(digest(data), "sha256:"), data: data})
	}
	return blobs, entry, nil
}

func descriptor(kind string, data []byte) map[string]any {
	return map[string]any{"mediaType": kind, "digest": digest(data), "size": len(data)}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func pack(all []tarFile) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, file := range all {
		header := &tar.Header{Name: file.name, Mode: 0o755, Size: int64(len(file.data)), Typeflag: tar.TypeReg}
		if file.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, file.link
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", file.name, err)
		}
		if _, err := writer.Write(file.data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", file.name, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("pack files: %w", err)
	}
	return buffer.Bytes(), nil
}
