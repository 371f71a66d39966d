// Package image builds container images without a container engine. It packs files in memory into images, and writes these images to disk as OCI
// layouts. The same input gives the same digest, on every machine and at any time.
//
// program.go compiles reproducibly, and sbom.go reads the program's list of modules. kinds.go defines the content of each kind of image. files.go and
// secrets.go refuse forbidden files: setuid, files that users other than root could write, keys and tokens. image.go packs one layer, layout.go an
// index of one image for each architecture. served.go adds the layer to a pulled image.
package image

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Modes of the files in an image. OpenShift runs containers in group 0, so the group must not have write permission.
const (
	ModeFile    fs.FileMode = 0o444
	ModeProgram fs.FileMode = 0o555
	modeFolder  fs.FileMode = 0o755
)

// File is one file of an image. Root owns it.
type File struct {
	// Path is the path from the root of the image, without a leading slash.
	Path    string
	Mode    fs.FileMode
	Content []byte
}

// Folder returns all files of a folder and its subfolders, as files under target in an image.
func Folder(folder fs.FS, target string) ([]File, error) {
	var files []File
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a folder: put a file there", name)
		}
		content, err := fs.ReadFile(folder, name)
		files = append(files, File{Path: path.Join(target, name), Mode: ModeFile, Content: content})
		return err //nolint:wrapcheck // It names the file, and is wrapped below.
	})
	if err != nil {
		return nil, fmt.Errorf("files for /%s: %w", target, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("files for /%s: the folder is empty", target)
	}
	return files, nil
}

// checkFiles refuses forbidden files and forbidden paths. The error names the file.
func checkFiles(files []File) error {
	seen := map[string]bool{}
	for _, file := range files {
		if !fs.ValidPath(file.Path) || file.Path == "." {
			return fmt.Errorf("file %q: the path must start at the root of the image and have no . or .. in it", file.Path)
		}
		if seen[file.Path] {
			return fmt.Errorf("file /%s: the image has this file twice", file.Path)
		}
		seen[file.Path] = true
		if err := CheckFile(file); err != nil {
			return err
		}
	}
	return nil
}

// CheckFile refuses a file that users other than root can change, a setuid file, and a file that holds a secret.
func CheckFile(file File) error {
	switch {
	case file.Mode&0o022 != 0:
		return fmt.Errorf("file /%s: mode %04o lets users other than root write it: remove bits 0022", file.Path, file.Mode)
	case file.Mode&^fs.ModePerm != 0:
		return fmt.Errorf("file /%s: mode %v has more than read, write and execute: remove setuid, setgid and the sticky bit", file.Path, file.Mode)
	}
	if found := secretIn(file); found != "" {
		return fmt.Errorf("file /%s: the file holds %s: everyone can read an image, so remove the secret", file.Path, found)
	}
	return nil
}

// parents returns all folders above the files. Each folder comes after its own parent.
func parents(files []File) []string {
	var folders []string
	for _, file := range files {
		for folder := path.Dir(file.Path); folder != "."; folder = path.Dir(folder) {
			folders = append(folders, folder)
		}
	}
	slices.SortFunc(folders, strings.Compare)
	return slices.Compact(folders)
}
