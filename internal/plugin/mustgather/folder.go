// Package mustgather reads Kubernetes objects from a folder or an archive instead of from an API server. The folder or archive was written by "oc
// storage collect", "oc adm must-gather" or "oc adm inspect", or it contains output of "kubectl get -o yaml".
//
// Names of files and folders differ between tools and versions. So the package reads every *.yaml, *.yml and *.json, and identifies objects by their
// content.
package mustgather

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Folder holds the objects of a folder. It is immutable after Open, and safe for concurrent use.
type Folder struct {
	scheme  *runtime.Scheme
	objects map[schema.GroupVersionKind]map[client.ObjectKey]client.Object
	skipped []string
	logs    map[logOf]string
	newest  time.Time
	// contents is nil if the folder has no list of its contents.
	contents *Contents
}

// Open reads all objects in the folder or .tar.gz file, at any depth, whose kind the scheme knows. It skips files that it can't read. Method Skipped
// lists these files. If a file is too large, Open returns an error, because users could overlook that the objects of a skipped large file are
// missing.
func Open(dir string, scheme *runtime.Scheme) (*Folder, error) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("must-gather folder %s does not exist, check the path: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("must-gather folder %s can't be read, check its permissions: %w", dir, err)
	}
	folder, files := newFolder(scheme), 0
	switch {
	case info.IsDir():
		files, err = folder.readFolder(dir)
	case isArchive(dir):
		files, err = folder.readArchive(dir)
	default:
		return nil, fmt.Errorf("%s is neither a folder nor a .tar.gz file: unpack it, and name the folder that holds its files", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("must-gather folder %s: %w", dir, err)
	}
	if len(folder.objects) == 0 {
		return nil, folder.empty(dir, files)
	}
	return folder, nil
}

// Skipped lists the files that Open did not read completely: Open skipped the whole file, or an object in the file. Each entry has the form "FILE:
// REASON".
func (f *Folder) Skipped() []string {
	return slices.Clone(f.skipped)
}

func newFolder(scheme *runtime.Scheme) *Folder {
	return &Folder{scheme: scheme, objects: map[schema.GroupVersionKind]map[client.ObjectKey]client.Object{}, logs: map[logOf]string{}}
}

func (f *Folder) readFolder(dir string) (files int, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("the folder can't be read, check its permissions: %w", err)
	}
	defer func() { _ = root.Close() }()
	return f.read(root)
}

func (f *Folder) empty(dir string, files int) error {
	const cure = `name a folder that "oc adm must-gather" wrote, an archive of "oc storage collect", or one with the output of "kubectl get -o yaml"`
	if len(f.skipped) > 0 {
		return fmt.Errorf("must-gather folder %s: no object was found in its %d YAML and JSON files; %d could not be read, first %s: %s",
			dir, files, len(f.skipped), f.skipped[0], cure)
	}
	return fmt.Errorf("must-gather folder %s: no object was found in its %d YAML and JSON files: %s", dir, files, cure)
}

func (f *Folder) skip(path string, reason error) {
	f.skipped = append(f.skipped, fmt.Sprintf("%s: %v", path, reason))
}

// add stores an object. A must-gather often has the same object twice, read at different times. In that case, add keeps the object with the newer
// resourceVersion. If it can't compare the versions, add keeps the first object.
func (f *Folder) add(gvk schema.GroupVersionKind, object client.Object) {
	ofKind, known := f.objects[gvk]
	if !known {
		ofKind = map[client.ObjectKey]client.Object{}
		f.objects[gvk] = ofKind
	}
	key := client.ObjectKeyFromObject(object)
	if present, known := ofKind[key]; known && !newer(object, present) {
		return
	}
	ofKind[key] = object
}

func newer(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}
