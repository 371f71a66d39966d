package mustgather

import (
	"bufio"
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	// largestFile is the size limit of one file. Without this limit, a huge file could use up the memory.
	largestFile = 64 << 20
	// deepestList limits how deep Lists can be nested. Tools nest Lists once at most. The limit saves time, because take parses all items again for each
	// level.
	deepestList = 4
)

// read reads the objects of all files below root, and counts the files.
func (f *Folder) read(root *os.Root) (files int, err error) {
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && path == ".":
			return err
		case err != nil:
			f.skip(path, err)
			return nil
		case entry.IsDir():
			return nil
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			f.dated(info.ModTime())
		}
		if holdsLog(path) {
			f.readLog(root, path, entry)
		}
		if !holdsObjects(path) {
			return nil
		}
		files++
		data, err := readFile(root, path)
		if tooLarge := new(tooLargeError); errors.As(err, &tooLarge) {
			return err
		}
		if err != nil {
			f.skip(path, err)
			return nil
		}
		f.takeFile(path, data)
		return nil
	})
	if err != nil {
		return files, fmt.Errorf("read files: %w", err)
	}
	return files, nil
}

func holdsObjects(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path)))
}

// tooLargeError names a file that exceeds largestFile.
type tooLargeError struct {
	path string
	size int64
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("file %s has %d MiB, and the limit is %d MiB: split it, for instance by namespace, "+
		"or remove it from the folder if it contains no Kubernetes objects", e.path, e.size>>20, largestFile>>20)
}

// readFile reads a file if it is a regular one. For other files it returns nothing, because reading a pipe would never end. The root refuses symbolic
// links that lead out of the folder. Links to files in the folder do no harm: Open reads these files, too.
func readFile(root *os.Root, path string) ([]byte, error) {
	info, err := root.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the file can't be read: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil
	}
	if info.Size() > largestFile {
		return nil, &tooLargeError{path: path, size: info.Size()}
	}
	file, err := root.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the file can't be read: %w", err)
	}
	defer func() { _ = file.Close() }()
	return readAtMost(file, path, largestFile)
}

// readAtMost reads a file to its end. The file may have grown beyond the limit since Stat. Without the end of a file, a parser rejects JSON, but not
// all YAML.
func readAtMost(file io.Reader, path string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("the file can't be read: %w", err)
	}
	if size := int64(len(data)); size > limit {
		return nil, &tooLargeError{path: path, size: size}
	}
	return data, nil
}

// takeFile adds all objects of a file. If any document of the file is not YAML, takeFile adds no object, because a part of the objects would look
// like the whole file.
func (f *Folder) takeFile(path string, data []byte) {
	f.takeContents(path, data)
	documents, err := split(data)
	if err != nil {
		f.skip(path, err)
		return
	}
	for _, document := range documents {
		f.take(path, document, schema.GroupVersionKind{}, 0)
	}
}

// split turns the documents of a file into JSON.
func split(data []byte) ([][]byte, error) {
	// Parsing JSON as YAML is slower, and fails on some escapes.
	if stdjson.Valid(data) {
		return [][]byte{data}, nil
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var documents [][]byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the file is not YAML: %w", err)
		}
		converted, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, fmt.Errorf("the file is not YAML: %w", err)
		}
		documents = append(documents, converted)
	}
}

// head has the fields that identify a document.
type head struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Items      stdjson.RawMessage `json:"items"`
}

// take adds the object in a document, or the items of the list in the document. If an item of a list has no kind, argument "usual" is its kind, which
// follows from the kind of the list.
func (f *Folder) take(path string, document []byte, usual schema.GroupVersionKind, depth int) {
	var it head
	if err := json.Unmarshal(document, &it); err != nil {
		// A file can have YAML that is not a Kubernetes object, because almost every text is YAML.
		return
	}
	gvk := schema.FromAPIVersionAndKind(it.APIVersion, it.Kind)
	if gvk.Kind == "" {
		gvk = usual
	}
	if strings.HasSuffix(gvk.Kind, "List") && it.Items != nil {
		f.takeItems(path, it.Items, gvk, depth)
		return
	}
	object, err := f.decode(gvk, document)
	if err != nil {
		f.skip(path, err)
		return
	}
	if object != nil {
		f.add(gvk, object)
	}
}

func (f *Folder) takeItems(path string, list []byte, gvk schema.GroupVersionKind, depth int) {
	var items []stdjson.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		f.skip(path, fmt.Errorf("the items of the %s can't be read: %w", gvk.Kind, err))
		return
	}
	if depth == deepestList {
		f.skip(path, fmt.Errorf("lists are nested more than %d deep", deepestList))
		return
	}
	usual := gvk.GroupVersion().WithKind(strings.TrimSuffix(gvk.Kind, "List"))
	for _, item := range items {
		f.take(path, item, usual, depth+1)
	}
}

// decode parses a document as an object of a kind. It returns nil for a kind that the scheme does not know.
func (f *Folder) decode(gvk schema.GroupVersionKind, document []byte) (client.Object, error) {
	if !f.scheme.Recognizes(gvk) {
		return nil, nil
	}
	made, err := f.scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("a %s can't be read: %w", gvk.Kind, err)
	}
	object, ok := made.(client.Object)
	if !ok {
		return nil, nil
	}
	var target any = object
	if free, ok := object.(*unstructured.Unstructured); ok {
		// The decoder of Unstructured requires a kind, which an item of a list may lack.
		target = &free.Object
	}
	if err := json.Unmarshal(document, target); err != nil {
		return nil, fmt.Errorf("a %s can't be read: %w", gvk.Kind, err)
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	if object.GetName() == "" {
		return nil, fmt.Errorf("a %s has no name", gvk.Kind)
	}
	return object, nil
}
