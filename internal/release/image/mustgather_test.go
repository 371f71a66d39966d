package image_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

func gathering(t *testing.T) (folder string, config v1.Config) {
	t.Helper()
	base, err := image.Build(image.Image{
		Files:        []image.File{{Path: "usr/bin/gather", Mode: image.ModeProgram, Content: []byte("OpenShift's")}, {Path: "bin/bash", Mode: image.ModeProgram}},
		Architecture: "amd64",
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := image.MustGather(image.About{Title: "gather", Version: "5.3.0", License: []byte("license"), Architecture: "amd64"},
		base, []byte("plugin"), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	folder = filepath.Join(t.TempDir(), "tree")
	// Unpack refuses what our own layers can't have, so the base is left out.
	layers, err := made.Layers()
	if err != nil {
		t.Fatal(err)
	}
	alone, err := mutate.AppendLayers(empty.Image, layers[len(layers)-1])
	if err != nil {
		t.Fatal(err)
	}
	if err := image.Unpack(alone, folder); err != nil {
		t.Fatal(err)
	}
	return folder, file.Config
}

// oc starts /usr/bin/gather in bash, and passes --since in a variable.
func TestWhatMustGatherStartsCollects(t *testing.T) {
	folder, config := gathering(t)
	if got := strings.Join(config.Entrypoint, " "); got != "/usr/bin/gather" || config.Labels["org.opencontainers.image.title"] != "gather" {
		t.Errorf("entry point %q, labels %v", got, config.Labels)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "usr/bin/oc-storage")); err != nil || string(text) != "plugin" {
		t.Errorf("the plugin is %q: %v", text, err)
	}
	script, err := os.ReadFile(filepath.Join(folder, "usr/bin/gather"))
	if err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(t.TempDir(), "oc-storage")
	if err := os.WriteFile(plugin, []byte("#!/bin/bash\necho \"$#: $*\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const collects = "collect --file /must-gather/oc-storage.tar.gz"
	for variable, want := range map[string]string{
		"": "3: " + collects, "MUST_GATHER_SINCE=2h0m0s": "5: " + collects + " --since 2h0m0s",
		"MUST_GATHER_SINCE_TIME=2026-01-02T15:04:05Z": "--since-time is not supported",
	} {
		command := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(string(script), "/usr/bin/oc-storage", plugin))
		command.Env = append(os.Environ(), variable)
		if output, err := command.CombinedOutput(); err != nil || !strings.Contains(string(output), want) {
			t.Errorf("%s: %v\n%swant %q", variable, err, output, want)
		}
	}
}
