package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEachImageHasALineAndALayout(t *testing.T) {
	dir, out := t.TempDir(), &bytes.Buffer{}
	write(t, filepath.Join(dir, "bundle/catalog/thing/catalog.yaml"), "schema: olm.package\n")
	args := []string{"-repository", "../..", "-bundles", filepath.Join(dir, "bundle"), "-output", filepath.Join(dir, "images")}
	if err := run(context.Background(), out, append(args, "-only", "csi-operators-catalog")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "images/csi-operators-catalog/index.json")); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"csi-operators-catalog ", "sha256:", "0.0 MB  amd64,arm64  ", "podman build --file images/aws-efs-utils/Containerfile",
		"podman build --file images/aws-efs-csi-driver/Containerfile --build-arg BASE_IMAGE=localhost/aws-efs-utils:v",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	for args, want := range map[string]string{
		"-only csi-operators-catalog":   "image csi-operators-catalog: stat nowhere/catalog: no such file or directory: run make bundle first",
		"-only aws-efs-operator-bundle": "image aws-efs-operator-bundle: stat nowhere/aws-efs-operator: no such file or directory: run make bundle first",
		"-only aws-efs-csi-driver":      "aws-efs-csi-driver needs a container engine, so this command does not build it",
		"-arch ,":                       "-arch is empty",
		"-tree tree":                    "-tree is for one image",
		"-changed -only oc-storage":     "-changed is for one architecture",
	} {
		t.Run(args, func(t *testing.T) {
			output := filepath.Join(t.TempDir(), "images")
			err := run(context.Background(), &bytes.Buffer{}, append(strings.Fields(args), "-repository", "../..", "-bundles", "nowhere", "-output", output))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error is %v, want %q", err, want)
			}
		})
	}
}

// The image of opm is pulled, so that nobody gets it who has not asked for it.
func TestTheServedCatalogIsBuiltOnThePulledOPM(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	opm := strings.TrimPrefix(server.URL, "http://") + "/opm:v1.2.3"
	base, err := image.Build(image.Image{Files: []image.File{{Path: "bin/opm", Mode: image.ModeProgram}}, Architecture: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	reference, err := name.ParseReference(opm)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference, base); err != nil {
		t.Fatal(err)
	}
	dir, out := t.TempDir(), &bytes.Buffer{}
	for _, name := range []string{"LICENSE", "VERSION", "images/images.yaml"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), regexp.MustCompile(`quay.io/operator-framework/opm:.*`).ReplaceAllString(string(text), opm))
	}
	write(t, filepath.Join(dir, "bundle/catalog/thing/catalog.yaml"), "schema: olm.package\n")
	args := []string{"-repository", dir, "-bundles", filepath.Join(dir, "bundle"), "-output", filepath.Join(dir, "out"), "-arch", "amd64"}
	if err := run(context.Background(), out, append(args, "-only", "csi-operators-catalog-opm")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "out/csi-operators-catalog-opm/index.json")); err != nil {
		t.Error(err)
	}
	// A list of one release overrides that of the repository.
	list := filepath.Join(dir, "list.yaml")
	text, err := os.ReadFile(filepath.Join(dir, "images/images.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, list, strings.ReplaceAll(string(text), opm, opm+"-missing"))
	err = run(context.Background(), out, append(args, "-list", list, "-only", "csi-operators-catalog-opm"))
	if err == nil || !strings.Contains(err.Error(), "opm:v1.2.3-missing") {
		t.Errorf("error %v: the base is not the one in the list", err)
	}
	err = run(context.Background(), out, append(args, "-arch", "arm64", "-only", "csi-operators-catalog-opm"))
	if want := "image csi-operators-catalog-opm: the base is for linux/amd64, want linux/arm64"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want %q", err, want)
	}
}

// All programs are compiled by what builds them, or a test would compile them once more.
func TestCompilingBuildsNoImage(t *testing.T) {
	output := filepath.Join(t.TempDir(), "images")
	args := []string{"-repository", "../..", "-output", output, "-compile", "-arch"}
	if err := run(context.Background(), io.Discard, append(args, runtime.GOARCH)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(output); !os.IsNotExist(err) {
		t.Errorf("something is in the folder of the images: %v", err)
	}
	err := run(context.Background(), io.Discard, append(args, "nonsense"))
	for _, name := range []string{"aws-efs-csi-driver-operator", "cluster-storage-operator", "csi-driver-operator", "oc-storage"} {
		if err == nil || !strings.Contains(err.Error(), "./cmd/"+name) {
			t.Errorf("cmd/%s is not compiled: %v", name, err)
		}
	}
}
