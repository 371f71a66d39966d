package nodeimages

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

// Tests are the images of pods that Kubernetes' tests of storage start, of all images that it names, in each version. They are Debian's busybox, those
// of agnhost with the commands that these tests call.
func Tests(names []string) (Images, error) {
	images := Images{}
	for _, name := range names {
		var err error
		switch {
		case strings.Contains(name, "/agnhost:"):
			images[name], err = agnhost()
		// The tests call the shell of nginx only.
		case strings.Contains(name, "/busybox:"), strings.Contains(name, "/nginx:"):
			images[name], err = shell([]string{"/bin/sh"})
		case strings.Contains(name, "/glibc-dns-testing:"):
			images[name], err = withDD()
		}
		if err != nil {
			return nil, err
		}
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("the tests need none of the images that can be made here: %q", names)
	}
	return images, nil
}

// withDD has a dd that knows oflag=nocache, and a shell that runs it: the shell of busybox would run its own dd. The tests call base64, blockdev and
// sha256sum of this image, too, which are those of busybox (test/e2e/storage/utils/utils.go of v1.36.3).
func withDD() (v1.Image, error) {
	files, err := programs(map[string]string{"dd": "coreutils", "sh": "dash"})
	if err != nil {
		return nil, err
	}
	return shell([]string{"/bin/sh"}, files...)
}

// agnhost pauses unless a pod names another command, as Kubernetes' own (test/images/agnhost/Dockerfile of v1.36.3).
func agnhost() (v1.Image, error) {
	program, err := fileOf("agnhost", "agnhost")
	if err != nil {
		return nil, err
	}
	made, err := shell([]string{"/agnhost"}, program)
	if err != nil {
		return nil, err
	}
	config, err := made.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Config.Cmd = []string{"pause"}
	return mutate.ConfigFile(made, config)
}

// shell is busybox with all of its commands, and further files, which may take the place of a command.
func shell(command []string, files ...image.File) (v1.Image, error) {
	one, err := busybox("bin/busybox")
	if err != nil {
		return nil, err
	}
	made, err := build(root, command, append(one, files...)...)
	if err != nil {
		return nil, err
	}
	names, err := exec.Command("busybox", "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("commands of busybox: %w", err)
	}
	var text bytes.Buffer
	writer := tar.NewWriter(&text)
	var problems []error
	for _, name := range strings.Fields(string(names)) {
		if path := "bin/" + name; name != "busybox" && !slices.ContainsFunc(files, func(file image.File) bool { return file.Path == path }) {
			link := &tar.Header{Name: path, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}
			problems = append(problems, writer.WriteHeader(link))
		}
	}
	if err := errors.Join(append(problems, writer.Close())...); err != nil {
		return nil, fmt.Errorf("layer of the commands of busybox: %w", err)
	}
	layer := static.NewLayer(text.Bytes(), types.OCIUncompressedLayer)
	return mutate.Append(made, mutate.Addendum{Layer: layer, MediaType: types.OCIUncompressedLayer})
}
