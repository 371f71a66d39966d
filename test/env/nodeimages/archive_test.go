package nodeimages

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

// An image has each of its names in the archive, its blobs are there once, and each is what its name says.
func TestAnArchiveHasEachImageByAllItsNames(t *testing.T) {
	program := image.File{Path: "usr/bin/thing", Mode: image.ModeProgram, Content: []byte("program")}
	one, err := build(root, []string{"/usr/bin/thing"}, program)
	if err != nil {
		t.Fatal(err)
	}
	other, err := build(image.User, []string{"/usr/bin/thing"}, program)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "images.tar")
	if err := (Images{"example.com/a:v1": one, "example.com/b:v1": one, "example.com/c:v1": other}).Write(file); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, file)
	var index v1.IndexManifest
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, described := range index.Manifests {
		found[described.Annotations["io.containerd.image.name"]] = described.Digest.Hex
		if files[blobName(described.Digest)] == nil {
			t.Errorf("the manifest of %v is missing", described.Annotations)
		}
	}
	if len(found) != 3 || found["example.com/a:v1"] != found["example.com/b:v1"] || found["example.com/a:v1"] == found["example.com/c:v1"] {
		t.Errorf("names %v", found)
	}
	// Two manifests, two configurations, and one layer.
	blobs := 0
	for name, content := range files {
		hash, isBlob := strings.CutPrefix(name, "blobs/sha256/")
		if !isBlob {
			continue
		}
		blobs++
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != hash {
			t.Errorf("%s has other content", name)
		}
	}
	if blobs != 5 {
		t.Errorf("%d blobs, want 5", blobs)
	}
}

func unpack(t *testing.T, file string) map[string][]byte {
	t.Helper()
	archive, err := os.Open(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files := map[string][]byte{}
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name] != nil {
			t.Errorf("%s is in the archive twice", header.Name)
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}
