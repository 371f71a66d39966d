package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/artifact"
	"github.com/csi-operators/csi-operators/internal/release/image"
)

const root = "../.."

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pinned is a tree whose version can be released: each image has a digest.
func pinned(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{release.VersionFile, release.ImagesFile, "LICENSE"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		must(t, err)
		if name == release.ImagesFile {
			text = regexp.MustCompile(`(?m)^ +image: .*:(.+)$`).ReplaceAll(text, []byte("$0\n    digest: $1@sha256:"+strings.Repeat("0", 64)))
			version, err := os.ReadFile(filepath.Join(root, release.VersionFile))
			must(t, err)
			text = bytes.ReplaceAll(text, []byte("digest: v${VERSION}"), append([]byte("digest: v"), bytes.TrimSpace(version)...))
		}
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o750))
		must(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	return folder
}

// tiny is a program that takes seconds to build, in a folder of its own.
func tiny(t *testing.T) []byte {
	t.Helper()
	folder := t.TempDir()
	must(t, os.CopyFS(folder, os.DirFS("testdata/tiny")))
	must(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module example.com/tiny\n"), 0o600))
	target := image.Target{OS: runtime.GOOS, Architecture: runtime.GOARCH, Variables: map[string]string{release.PluginVersion: "v1.2.3"}}
	binary, err := image.GoProgram(t.Context(), folder, ".", target)
	must(t, err)
	return binary
}

// notes is a compiler that takes a program for the plugin, and notes what it was to be built for.
func notes(binary []byte, seen *[]string) compiler {
	return func(_ context.Context, _, pkg string, target image.Target) ([]byte, error) {
		*seen = append(*seen, pkg+" "+target.String()+" "+target.Variables[release.PluginVersion])
		return binary, nil
	}
}

func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir(folder)
	must(t, err)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		must(t, err)
		found[entry.Name()] = string(text)
	}
	return found
}

func TestAReleaseHasEveryFileAndTwoRunsAreEqual(t *testing.T) {
	folder, output := pinned(t), filepath.Join(t.TempDir(), "release")
	must(t, os.MkdirAll(output, 0o750))
	must(t, os.WriteFile(filepath.Join(output, "of-the-version-before"), nil, 0o600))
	var runs []map[string]string
	var built []string
	compile := notes(tiny(t), &built)
	for range 2 {
		built = nil
		must(t, run(t.Context(), &bytes.Buffer{}, []string{"-repository", folder, "-output", output}, compile))
		runs = append(runs, contents(t, output))
	}
	if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
		t.Error("two runs differ")
	}
	version, err := os.ReadFile(filepath.Join(root, release.VersionFile))
	must(t, err)
	tag := "v" + strings.TrimSpace(string(version))
	want := []string{artifact.KrewFile, artifact.Sums}
	var wantBuilt []string
	for _, platform := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"} {
		name := "oc-storage_" + tag + "_" + strings.Replace(platform, "/", "_", 1)
		archive := name + ".tar.gz"
		if strings.HasPrefix(platform, "windows") {
			archive = name + ".zip"
		}
		want = append(want, archive, name+".spdx.json")
		wantBuilt = append(wantBuilt, "./cmd/oc-storage "+platform+" "+tag)
	}
	slices.Sort(want)
	var names, summed []string
	for name := range runs[0] {
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantBuilt, built); diff != "" {
		t.Errorf("built (-want +got):\n%s", diff)
	}
	for _, line := range strings.Split(strings.TrimSpace(runs[0][artifact.Sums]), "\n") {
		_, name, _ := strings.Cut(line, "  ")
		summed = append(summed, name)
	}
	if diff := cmp.Diff(slices.DeleteFunc(want, func(name string) bool { return name == artifact.Sums }), summed); diff != "" {
		t.Errorf("checksums (-want +got):\n%s", diff)
	}
}

func TestAReleaseWithoutDigestsIsRefused(t *testing.T) {
	folder, output := pinned(t), filepath.Join(t.TempDir(), "release")
	name := filepath.Join(folder, release.ImagesFile)
	text, err := os.ReadFile(name)
	must(t, err)
	text = regexp.MustCompile(`(?m)^    digest: .*\n`).ReplaceAll(text, nil)
	must(t, os.WriteFile(name, text, 0o600))
	var built []string
	compile := notes(tiny(t), &built)
	args := []string{"-repository", folder, "-output", output}
	err = run(t.Context(), &bytes.Buffer{}, args, compile)
	for _, want := range []string{"csi-provisioner: digest: version", "can't be released without a digest", "make release-artifacts DRAFT=1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	if _, err := os.Stat(output); err == nil || len(built) > 0 {
		t.Errorf("it has built %v", built)
	}
	must(t, run(t.Context(), &bytes.Buffer{}, append(args, "-draft"), compile))
	for name, text := range contents(t, output) {
		if strings.HasPrefix(name, "oc-storage") && !strings.Contains(name, "-draft_") || name == artifact.KrewFile && !strings.Contains(text, "-draft") {
			t.Errorf("%s can be mistaken for a release", name)
		}
	}
}

// What the compiler makes does not depend on the folder, the time or the environment.
func TestTwoBuildsAreEqual(t *testing.T) {
	t.Setenv("GOFLAGS", "-v")
	builds := [][]byte{tiny(t), tiny(t)}
	if !bytes.Equal(builds[0], builds[1]) {
		t.Error("two builds of the same program differ")
	}
	if !bytes.Contains(builds[0], []byte("v1.2.3")) {
		t.Error("the program does not know its version")
	}
	info, err := buildinfo.Read(bytes.NewReader(builds[0]))
	must(t, err)
	for _, setting := range info.Settings {
		if setting.Key == "CGO_ENABLED" && setting.Value != "0" || strings.HasPrefix(setting.Key, "vcs") {
			t.Errorf("built with %s=%s", setting.Key, setting.Value)
		}
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	failing := func(context.Context, string, string, image.Target) ([]byte, error) { return []byte("no program"), nil }
	for want, args := range map[string][]string{
		"version of the release": {"-repository", t.TempDir()},
		"SBOM of oc-storage":     {"-repository", pinned(t), "-output", filepath.Join(t.TempDir(), "release")},
	} {
		if err := run(t.Context(), &bytes.Buffer{}, args, failing); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}
