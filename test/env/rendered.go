package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/csi-operators/csi-operators/internal/testing/gobuild"
)

// Rendered are the objects of every golden variant of every driver and of every entry of the catalogue, by names like
// "awsefs/fips" and "catalogue/manila-csi-driver-operator/proxy". The golden tests write them, so that no variant can be forgotten.
func Rendered(ctx context.Context) (map[string][]*unstructured.Unstructured, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	folder, remove, err := Folder("csi-operators-rendered-")
	if err != nil {
		return nil, fmt.Errorf("folder for rendered objects: %w", err)
	}
	defer remove()
	// Other targets run the same tests with the race detector; here only what they write is wanted.
	command := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^TestRenderMatchesReviewedFiles$",
		"./internal/driver/...", "./internal/driver/catalogue")
	command.Dir, command.Env = root, append(os.Environ(), "RENDERED="+folder, "UPDATE=", "GOFLAGS="+gobuild.Flags())
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("render all variants: %w:\n%s", err, output)
	}
	all := map[string][]*unstructured.Unstructured{}
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, strings.TrimSuffix(path, ".yaml"))
		if err != nil {
			return fmt.Errorf("name of a variant: %w", err)
		}
		all[filepath.ToSlash(name)], err = ReadObjects(path)
		return err
	})
	if err == nil && len(all) == 0 {
		err = errors.New("the golden tests have rendered nothing")
	}
	return all, err
}

// ReadObjects reads all objects of a YAML file.
func ReadObjects(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
