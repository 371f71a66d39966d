package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		"podman build --file images/aws-efs-csi-driver/Containerfile --build-arg BASE_IMAGE=quay.io/csi-operators/aws-efs-utils:v",
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
		"-only aws-efs-csi-driver":      "aws-efs-csi-driver is not built without a container engine",
		"-arch ,":                       "-arch is empty",
		"-tree tree":                    "-tree is for one image",
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
