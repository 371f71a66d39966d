// Package nodeimages makes the images that the pods of real nodes run, of the programs in bin/, and gives them the names that are rendered.
//
// The product's own images are those of "make images". Others hold a program as its project has released it, or a stand-in: the table in
// docs/contribute/devcluster.md names each of them.
package nodeimages

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/csi-operators/csi-operators/internal/release/image"
	"github.com/csi-operators/csi-operators/test/env"
)

// root is the user of images that name none, as those of the sidecars and of the drivers. Where a pod must not run as root, OpenShift gives it a user
// of its namespace's range.
const root = "0:0"

// Product is the image of one of our own programs.
func Product(name string) (v1.Image, error) {
	folder, err := env.Binary("node/images/" + name)
	if err != nil {
		return nil, fmt.Errorf("%w: run make node-images", err)
	}
	outer, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", name, err)
	}
	// The layout has one index, and that an image for each architecture.
	index, err := first(outer, v1.ImageIndex.ImageIndex)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", name, err)
	}
	return first(index, v1.ImageIndex.Image)
}

func first[T any](index v1.ImageIndex, open func(v1.ImageIndex, v1.Hash) (T, error)) (T, error) {
	var none T
	manifest, err := index.IndexManifest()
	if err != nil {
		return none, err
	}
	if len(manifest.Manifests) != 1 {
		return none, fmt.Errorf("the index has %d entries, want 1", len(manifest.Manifests))
	}
	return open(index, manifest.Manifests[0].Digest)
}

// Program is the image of a program in bin/real, with the place and the user that its project's image has.
func Program(name string) (v1.Image, error) {
	place, user := name, root
	switch name {
	case "kube-rbac-proxy":
		// brancz/kube-rbac-proxy v0.19.1, Dockerfile.
		place, user = "usr/local/bin/kube-rbac-proxy", image.User
	case "aws-efs-csi-driver":
		return efs()
	}
	file, err := program(name, place)
	if err != nil {
		return nil, err
	}
	return build(user, []string{"/" + place}, file)
}

// efs is the driver with what it looks for in its image (aws-efs-csi-driver v1.7.7, Dockerfile). test/real/csidriver/efs stands in for mount.efs and
// the watchdog of efs-utils.
func efs() (v1.Image, error) {
	const place = "bin/aws-efs-csi-driver"
	driver, err := program("aws-efs-csi-driver", place)
	if err != nil {
		return nil, err
	}
	shell, err := busybox("bin/sh", "bin/sleep", "bin/busybox", "bin/umount")
	if err != nil {
		return nil, err
	}
	mount, err := program("efs", "bin/mount")
	if err != nil {
		return nil, err
	}
	watchdog := mount
	watchdog.Path = "usr/bin/amazon-efs-mount-watchdog"
	static := image.File{Path: "etc/amazon/efs-static-files/efs-utils.crt", Mode: image.ModeFile, Content: []byte("stand-in\n")}
	return build(root, []string{"/" + place}, append(shell, driver, watchdog, mount, static)...)
}

// Recording is a driver, or another program, whose place the recorder takes.
type Recording struct {
	// Name is the CSI name; empty if it is no driver.
	Name         string
	Capabilities []string
	// Topology is KEY=VALUE, if the driver has one.
	Topology string
	// Metrics are addresses that no argument names.
	Metrics []string
	// Share is IP:PORT of the real node on which the recorder keeps what pods write; empty if it keeps nothing.
	Share string
	// Disks says that it keeps volumes as disks, and not as folders.
	Disks bool
}

// Recorder is the image of the recorder: it takes any arguments, prints them, and answers as a driver.
func Recorder(of Recording) (v1.Image, error) {
	const place = "bin/recorder"
	file, err := program("csidriver", place)
	if err != nil {
		return nil, err
	}
	files, err := busybox("bin/sh", "bin/sleep", "bin/cp")
	if err != nil {
		return nil, err
	}
	if of.Disks {
		tools, err := filesystems()
		if err != nil {
			return nil, err
		}
		files = append(files, tools...)
	}
	command := []string{
		"/" + place, "--record", "--name=" + of.Name, "--capabilities=" + strings.Join(of.Capabilities, ","), "--topology=" + of.Topology,
		"--metrics=" + strings.Join(of.Metrics, ","), "--share=" + of.Share, fmt.Sprintf("--disks=%t", of.Disks), "--",
	}
	return build(root, command, append(files, file)...)
}

// program is a program of bin/real, under a path of an image.
func program(name, place string) (image.File, error) { return fileOf("real/"+name, place) }

// fileOf is a program of bin.
func fileOf(name, place string) (image.File, error) {
	binary, err := env.Binary(name)
	if err != nil {
		return image.File{}, err
	}
	content, err := os.ReadFile(filepath.Clean(binary))
	return image.File{Path: place, Mode: image.ModeProgram, Content: content}, err
}

// busybox is Debian's busybox-static, under the names by which it knows what to do.
func busybox(places ...string) ([]image.File, error) {
	binary, err := exec.LookPath("busybox")
	if err != nil {
		return nil, errors.New("busybox is missing: install the package busybox-static")
	}
	content, err := os.ReadFile(filepath.Clean(binary))
	if err != nil {
		return nil, err
	}
	var files []image.File
	for _, place := range places {
		files = append(files, image.File{Path: place, Mode: image.ModeProgram, Content: content})
	}
	return files, nil
}

// build makes an image of one layer. It is not compressed: it is read once, on the machine that has made it.
func build(user string, command []string, files ...image.File) (v1.Image, error) {
	var text bytes.Buffer
	writer := tar.NewWriter(&text)
	var problems []error
	for _, folder := range folders(files) {
		problems = append(problems, writer.WriteHeader(&tar.Header{Name: folder + "/", Typeflag: tar.TypeDir, Mode: 0o755}))
	}
	for _, file := range files {
		header := &tar.Header{Name: file.Path, Typeflag: tar.TypeReg, Mode: int64(file.Mode), Size: int64(len(file.Content))}
		problems = append(problems, writer.WriteHeader(header))
		_, err := writer.Write(file.Content)
		problems = append(problems, err)
	}
	if err := errors.Join(append(problems, writer.Close())...); err != nil {
		return nil, fmt.Errorf("layer of %s: %w", command[0], err)
	}
	layer := static.NewLayer(text.Bytes(), types.OCIUncompressedLayer)
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err := mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
		Config: v1.Config{User: user, Entrypoint: command, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, WorkingDir: "/"},
	})
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", command[0], err)
	}
	return mutate.Append(base, mutate.Addendum{Layer: layer, MediaType: types.OCIUncompressedLayer})
}

// folders are those above the files, each after the one that it is in.
func folders(files []image.File) []string {
	// A program may make files there.
	all := []string{"tmp"}
	for _, file := range files {
		for folder := path.Dir(file.Path); folder != "."; folder = path.Dir(folder) {
			all = append(all, folder)
		}
	}
	slices.SortFunc(all, cmp.Compare)
	return slices.Compact(all)
}
