package nodeimages

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os/exec"
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
		// The tests call the shell of nginx only, and the shell, base64, dd, blockdev and sha256sum of glibc-dns-testing
		// (test/e2e/storage/utils/utils.go of v1.36.3).
		case strings.Contains(name, "/busybox:"), strings.Contains(name, "/nginx:"), strings.Contains(name, "/glibc-dns-testing:"):
			images[name], err = shell([]string{"/bin/sh"})
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

// shell is busybox with all of its commands, and further files.
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
		if name != "busybox" {
			link := &tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}
			problems = append(problems, writer.WriteHeader(link))
		}
	}
	if err := errors.Join(append(problems, writer.Close())...); err != nil {
		return nil, fmt.Errorf("layer of the commands of busybox: %w", err)
	}
	layer := static.NewLayer(text.Bytes(), types.OCIUncompressedLayer)
	return mutate.Append(made, mutate.Addendum{Layer: layer, MediaType: types.OCIUncompressedLayer})
}
