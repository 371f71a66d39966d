package image_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

func TestTheImageForCIHasTheStorageTests(t *testing.T) {
	base, err := image.Build(image.Image{Files: []image.File{{Path: "bin/sh", Mode: image.ModeProgram}}, Architecture: "arm64"})
	if err != nil {
		t.Fatal(err)
	}
	about := image.About{Title: "tests", Version: "5.3.0", License: []byte("license"), Architecture: "arm64"}
	manifests := os.DirFS("../../../test/e2e/storage")
	made, err := image.StorageTests(about, base, []byte("plugin"), []byte("{}"), manifests)
	if err != nil {
		t.Fatal(err)
	}
	file, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config := file.Config; config.User != image.User || config.WorkingDir != "/tmp" || config.Labels["org.opencontainers.image.title"] != "tests" {
		t.Errorf("configuration %+v", config)
	}
	layers, err := made.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) != 2 {
		t.Fatalf("%d layers, want the base's and ours", len(layers))
	}
	ours, err := mutate.AppendLayers(empty.Image, layers[1])
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(t.TempDir(), "tree")
	if err := image.Unpack(ours, tree); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(tree, "usr/bin/oc-storage")); err != nil || string(text) != "plugin" {
		t.Errorf("the plugin is %q: %v", text, err)
	}
	count := 0
	err = fs.WalkDir(manifests, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		count++
		want, err := fs.ReadFile(manifests, name)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(tree, "opt/storage-tests", name))
		if err == nil && string(got) != string(want) {
			t.Errorf("/opt/storage-tests/%s has other content than test/e2e/storage/%s", name, name)
		}
		return err
	})
	if err != nil || count < 10 {
		t.Errorf("%d files: %v", count, err)
	}
}
