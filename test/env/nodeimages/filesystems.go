package nodeimages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

// filesystems are this machine's programs for file systems of disks.
func filesystems() ([]image.File, error) {
	return programs(map[string]string{
		"mkfs.ext4": "e2fsprogs", "e2fsck": "e2fsprogs", "resize2fs": "e2fsprogs", "mkfs.xfs": "xfsprogs", "xfs_growfs": "xfsprogs",
	})
}

// programs are programs of this machine, by their name and the package that has them, each with its libraries at the paths where its loader looks for
// them.
func programs(packages map[string]string) ([]image.File, error) {
	found := map[string]image.File{}
	for name, from := range packages {
		binary, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("%s is missing: install the package %s", name, from)
		}
		if err := add(found, binary, "bin/"+name); err != nil {
			return nil, err
		}
		libraries, err := exec.Command("ldd", binary).Output()
		if err != nil {
			return nil, fmt.Errorf("libraries of %s: %w", name, err)
		}
		// A line is "name => path (address)", or "path (address)" for the loader.
		for _, word := range strings.Fields(string(libraries)) {
			if !strings.HasPrefix(word, "/") {
				continue
			}
			if err := add(found, word, strings.TrimPrefix(word, "/")); err != nil {
				return nil, err
			}
		}
	}
	var files []image.File
	for _, file := range found {
		files = append(files, file)
	}
	return files, nil
}

// add adds a file of this machine.
func add(to map[string]image.File, from, place string) error {
	content, err := os.ReadFile(filepath.Clean(from))
	if err != nil {
		return err
	}
	to[place] = image.File{Path: place, Mode: image.ModeProgram, Content: content}
	return nil
}
