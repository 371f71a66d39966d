package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/release/payload"
)

// repository is a folder with the images of the release, and a manifest that is not made any more.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	images, err := os.ReadFile(filepath.Join("../..", payload.ImagesFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{payload.ImagesFile: images, payload.Folder + "/0000_50_cluster-storage-operator_05_gone.yaml": {}} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func read(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[file.Name()] = string(text)
	}
	return found
}

func TestTheManifestsAreAsTheyAreMade(t *testing.T) {
	root := repository(t)
	if err := run(root); err != nil {
		t.Fatal(err)
	}
	made := read(t, filepath.Join(root, payload.Folder))
	if len(made) < 30 {
		t.Errorf("%d manifests", len(made))
	}
	if diff := cmp.Diff(read(t, filepath.Join("../..", payload.Folder)), made); diff != "" {
		t.Errorf("run make manifests (-committed +made):\n%s", diff)
	}
}

func TestAWrongListOfImagesWritesNothing(t *testing.T) {
	for before, after := range map[string]string{
		"variable: ATTACHER_IMAGE":      "variable: ATACHER_IMAGE",
		"name: csi-driver-operator\n":   "name: csi-operator\n",
		"name: csi-external-resizer\n":  "name: csi-external-attacher\n",
		"variable: RESIZER_IMAGE":       "variable: ATTACHER_IMAGE",
		"variable: PROVISIONER_IMAGE\n": "variables: PROVISIONER_IMAGE\n",
	} {
		root := repository(t)
		file := filepath.Join(root, filepath.FromSlash(payload.ImagesFile))
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), before) {
			t.Fatalf("%q is not there: %v", before, err)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), before, after, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(root); err == nil || !strings.Contains(err.Error(), payload.ImagesFile) {
			t.Errorf("%s: error %v", after, err)
		}
		if left := read(t, filepath.Join(root, payload.Folder)); len(left) != 1 {
			t.Errorf("%s: %d manifests", after, len(left))
		}
	}
}

// A disk may be full.
func TestManifestsThatCanNotBeWrittenLeaveTheEarlierOnes(t *testing.T) {
	root := repository(t)
	before := read(t, filepath.Join(root, payload.Folder))
	tree, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if err := write(tree, map[string][]byte{"a.yaml": []byte("a"), "folder/b.yaml": []byte("b")}); err == nil {
		t.Error("a file was written into a folder that does not exist")
	}
	if diff := cmp.Diff(before, read(t, filepath.Join(root, payload.Folder))); diff != "" {
		t.Errorf("the folder has changed (-before +after):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(root, unfinished)); !os.IsNotExist(err) {
		t.Errorf("a part of the new manifests is left (%v)", err)
	}
}
