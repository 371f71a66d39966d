package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/release"
)

func TestAnImageIsCurrentUntilItsProgramOrItsBuilderChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a program")
	}
	b := builder{folder: "../..", output: t.TempDir(), architectures: []string{runtime.GOARCH}, release: release.Release{}}
	described := release.Image{Name: "aws-efs-csi-driver-operator"}
	record := filepath.Join(b.output, ".aws-efs-csi-driver-operator.built")
	current := func() (bool, func() error) {
		t.Helper()
		is, keep, err := b.current(t.Context(), described)
		if err != nil {
			t.Fatal(err)
		}
		return is, keep
	}
	is, keep := current()
	if is {
		t.Error("an image that is not there is current")
	}
	write(t, filepath.Join(b.output, described.Name, "index.json"), "{}")
	if err := keep(); err != nil {
		t.Fatal(err)
	}
	if is, _ := current(); !is {
		t.Error("an image that has just been built is not current")
	}
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	own, err := ownBuildID(t.Context())
	if err != nil || own == "" {
		t.Fatalf("this program has the build ID %q (%v)", own, err)
	}
	write(t, record, strings.ReplaceAll(string(text), own, "another/builder"))
	if is, _ := current(); is {
		t.Error("an image of another builder is current")
	}
	// The build that follows may fail.
	if _, err := os.Stat(record); !os.IsNotExist(err) {
		t.Errorf("the record is still there (%v)", err)
	}
}
