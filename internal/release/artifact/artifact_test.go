package artifact_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/artifact"
)

// unpacked are the files of an archive, as "mode time content" by name.
func unpacked(t *testing.T, name string, archive []byte) map[string]string {
	t.Helper()
	found := map[string]string{}
	if strings.HasSuffix(name, ".zip") {
		reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		must(t, err)
		for _, file := range reader.File {
			content, err := file.Open()
			must(t, err)
			text, err := io.ReadAll(content)
			must(t, err)
			found[file.Name] = fmt.Sprintf("%v %d %s", file.Mode(), file.Modified.UTC().Year(), text)
		}
		return found
	}
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	must(t, err)
	if !compressed.ModTime.IsZero() || compressed.Name != "" {
		t.Errorf("the archive has the name %q and the time %v", compressed.Name, compressed.ModTime)
	}
	reader := tar.NewReader(compressed)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		must(t, err)
		text, err := io.ReadAll(reader)
		must(t, err)
		if header.Typeflag != tar.TypeReg || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s: %+v", header.Name, header)
		}
		found[header.Name] = fmt.Sprintf("%v %d %s", header.FileInfo().Mode(), header.ModTime.UTC().Year(), text)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnArchiveHasTheProgramUnderBothNames(t *testing.T) {
	for _, platform := range release.Platforms() {
		t.Run(platform.String(), func(t *testing.T) {
			archive, err := artifact.Plugin(platform, []byte("program"), []byte("license"))
			must(t, err)
			again, err := artifact.Plugin(platform, []byte("program"), []byte("license"))
			must(t, err)
			if !bytes.Equal(archive, again) {
				t.Error("two archives of the same differ")
			}
			name := release.Release{}.PluginArchive(platform)
			program, suffix := "-rwxr-xr-x 1980 program", ""
			if platform.OS == "windows" {
				suffix = ".exe"
			}
			want := map[string]string{"LICENSE": "-rw-r--r-- 1980 license", "oc-storage" + suffix: program, "kubectl-storage" + suffix: program}
			found := unpacked(t, name, archive)
			for _, script := range []string{"oc_complete-storage", "kubectl_complete-storage"} {
				if text, there := found[script]; there == (platform.OS == "windows") || there && !strings.HasPrefix(text, "-rwxr-xr-x 1980 #!/bin/sh\n") {
					t.Errorf("%s is %q", script, text)
				}
				delete(found, script)
			}
			if diff := cmp.Diff(want, found); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		})
	}
}

// oc and kubectl start the scripts with what is typed, an empty last word included.
func TestCompletionAsksTheProgramBesideIt(t *testing.T) {
	archive, err := artifact.Plugin(release.Platforms()[0], []byte("#!/bin/sh\necho \"$0 $# $*\"\n"), nil)
	must(t, err)
	folder := t.TempDir()
	for name, text := range unpacked(t, "", archive) {
		_, content, _ := strings.Cut(text, " 1980 ")
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o700))
	}
	for _, program := range []string{"oc", "kubectl"} {
		script := exec.CommandContext(t.Context(), filepath.Join(folder, program+"_complete-storage"), "share", "")
		script.Env = []string{"PATH=" + folder + ":" + os.Getenv("PATH")}
		printed, err := script.Output()
		if want := filepath.Join(folder, program+"-storage") + " 3 __complete share \n"; err != nil || string(printed) != want {
			t.Errorf("%v, %q, want %q", err, printed, want)
		}
	}
}

func TestFilesThatWouldLandElsewhereAreRefused(t *testing.T) {
	for want, files := range map[string][]artifact.File{
		`file "../a"`: {{Name: "../a"}}, `file "a/b"`: {{Name: "a/b"}}, `file "/a"`: {{Name: "/a"}}, "twice": {{Name: "a"}, {Name: "a"}},
	} {
		for _, pack := range []func([]artifact.File) ([]byte, error){artifact.TarGz, artifact.Zip} {
			if _, err := pack(files); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error is %v, want %q", err, want)
			}
		}
	}
}

func TestChecksumsAreSorted(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got, want := string(artifact.Checksums(map[string][]byte{"b": {}, "a": {}})), empty+"  a\n"+empty+"  b\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What krew checks of a manifest: kubernetes-sigs/krew, internal/index/validation/validate.go.
func TestKrewTakesTheManifest(t *testing.T) {
	current := release.Release{Version: semver.MustParse("1.2.3")}
	archives := map[string][]byte{}
	for _, platform := range release.Platforms() {
		archives[current.PluginArchive(platform)] = []byte(platform.String())
	}
	text, err := artifact.Krew(current, archives)
	must(t, err)
	var plugin struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
		Spec       struct {
			Version, Homepage, ShortDescription, Description, Caveats string
			Platforms                                                 []struct {
				Selector         map[string]map[string]string
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		} `json:"spec"`
	}
	must(t, yaml.UnmarshalStrict(text, &plugin))
	if plugin.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || plugin.Kind != "Plugin" || plugin.Metadata["name"] != "storage" ||
		plugin.Spec.Version != "v1.2.3" || strings.ContainsAny(plugin.Spec.ShortDescription, "\r\n") || len(plugin.Spec.ShortDescription) > 50 {
		t.Errorf("manifest:\n%s", text)
	}
	if len(plugin.Spec.Platforms) != 6 {
		t.Errorf("%d platforms, want 6", len(plugin.Spec.Platforms))
	}
	for _, platform := range plugin.Spec.Platforms {
		labels := platform.Selector["matchLabels"]
		name := "oc-storage_v1.2.3_" + labels["os"] + "_" + labels["arch"]
		if !strings.HasPrefix(platform.URI, "https://github.com/csi-operators/csi-operators/releases/download/v1.2.3/"+name+".") ||
			!regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(platform.SHA256) {
			t.Errorf("platform %v: %+v", labels, platform)
		}
		if platform.Files[0].From != platform.Bin || platform.Files[1].From != "LICENSE" {
			t.Errorf("platform %v has files %+v and starts %s", labels, platform.Files, platform.Bin)
		}
	}
	delete(archives, "oc-storage_v1.2.3_windows_arm64.zip")
	if _, err := artifact.Krew(current, archives); err == nil || !strings.Contains(err.Error(), "build the plugin for windows/arm64") {
		t.Errorf("without an archive: %v", err)
	}
}
