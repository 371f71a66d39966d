package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheCommittedSchemasAreThoseOfTheCode(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	made, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != len(made) {
		t.Errorf("%s has %d files, and %d commands have a schema: %v", folder, len(files), len(made), err)
	}
	for name, text := range made {
		committed, err := os.ReadFile(filepath.Join(folder, name))
		if diff := cmp.Diff(string(committed), string(text)); err != nil || diff != "" {
			t.Errorf("%s: %v (-committed +made by \"make schema\"):\n%s", name, err, diff)
		}
	}
}
