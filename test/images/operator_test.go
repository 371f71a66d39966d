// Package images tests what is shipped as a container image, as far as that goes without a container engine.
package images

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/image"
	"github.com/csi-operators/csi-operators/internal/testing/gobuild"
	"github.com/csi-operators/csi-operators/test/env"
)

const megabyte = 1 << 20

// programs are shipped in an image of their own, with how to see that each runs: what its help or its output has.
func programs() map[string]map[string]string {
	return map[string]map[string]string{
		env.OperatorName:           {"start -h": "-leader-elect"},
		nodeHealth:                 {"start -h": "-interval time", "once -h": "-cgroups folder"},
		"cluster-storage-operator": {"start -h": "-leader-elect"},
		"csi-driver-operator":      {"start -h": "ebs.csi.aws.com, file.csi.azure.com, manila.csi.openstack.org, pd.csi.storage.gke.io"},
	}
}

// program is where the image of a program has it, sbom where it lists what that is made of.
func program(name string) string { return "usr/bin/" + name }
func sbom(name string) string    { return "usr/share/sbom/" + name + ".cdx.json" }

// build writes the layout of a program's image from the sources in a folder, as make images does, and returns its digest. Go's tools are run by a command,
// if there is one.
func build(t *testing.T, name, root, folder, toolExec string) string {
	t.Helper()
	found, err := release.Load(os.DirFS(root))
	env.Must(t, err)
	described, err := found.Find(name)
	env.Must(t, err)
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	env.Must(t, err)
	about := image.About{Title: described.Name, Version: found.Version.String(), License: license, Architecture: runtime.GOARCH}
	binary, err := image.GoProgram(t.Context(), root, "./cmd/"+described.Name, image.Target{Architecture: about.Architecture, ToolExec: toolExec})
	env.Must(t, err)
	about.Build, err = image.BuildLabels(binary)
	env.Must(t, err)
	sbom, err := image.SBOM(binary, described.Name, about.Version)
	env.Must(t, err)
	built, err := image.Program(about, described.Name, binary, sbom)
	env.Must(t, err)
	written, err := image.WriteLayout(folder, described.Image, []v1.Image{built})
	env.Must(t, err)
	return written.Digest
}

// readBack returns the only image of a layout.
func readBack(t *testing.T, folder string) v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(folder)
	env.Must(t, err)
	env.Must(t, validate.Index(index, validate.Fast))
	for {
		manifest, err := index.IndexManifest()
		env.Must(t, err)
		if len(manifest.Manifests) != 1 {
			t.Fatalf("%d manifests, want 1: %+v", len(manifest.Manifests), manifest.Manifests)
		}
		only := manifest.Manifests[0]
		if only.MediaType.IsImage() {
			found, err := index.Image(only.Digest)
			env.Must(t, err)
			return found
		}
		index, err = index.ImageIndex(only.Digest)
		env.Must(t, err)
	}
}

func TestTheImageOfEachProgram(t *testing.T) {
	t.Parallel()
	root, err := env.Root()
	env.Must(t, err)
	for name, examples := range programs() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			digest := build(t, name, root, filepath.Join(dir, "layout"), gobuild.LinkCache())
			built := readBack(t, filepath.Join(dir, "layout"))
			tree := filepath.Join(dir, "tree")
			env.Must(t, image.Unpack(built, tree))

			t.Run("says who it is and who runs in it", func(t *testing.T) { configuration(t, name, root, built) })
			t.Run("has few and harmless files", func(t *testing.T) { files(t, name, tree) })
			t.Run("has a static program", func(t *testing.T) { static(t, filepath.Join(tree, program(name))) })
			t.Run("lists what it is made of", func(t *testing.T) { parts(t, name, tree) })
			// On a Mac there is nothing that could run it.
			if runtime.GOOS == "linux" {
				t.Run("runs", func(t *testing.T) { runs(t, tree, built, examples) })
			}
			if name != env.OperatorName {
				if name == nodeHealth {
					t.Run("is what the DaemonSet starts", func(t *testing.T) { watches(t, tree, built) })
					return
				}
				t.Run("is what the release starts", func(t *testing.T) { startable(t, root, name, tree, built) })
				return
			}
			// All programs are built by the same function, so one of them is enough.
			t.Run("is the same from another folder", func(t *testing.T) { same(t, root, digest) })
			t.Run("is what the bundles start", func(t *testing.T) { deployed(t, root, tree, built) })
			if runtime.GOOS == "linux" {
				t.Run("installs the driver", func(t *testing.T) { installs(t, root, filepath.Join(tree, program(name))) })
			}
		})
	}
}

func same(t *testing.T, root, digest string) {
	t.Helper()
	dir := t.TempDir()
	copied := filepath.Join(dir, "elsewhere")
	for _, name := range []string{"api", "cmd", "internal", "images"} {
		env.Must(t, os.CopyFS(filepath.Join(copied, name), os.DirFS(filepath.Join(root, name))))
	}
	for _, name := range []string{"go.mod", "go.sum", "LICENSE", "VERSION"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		env.Must(t, err)
		env.Must(t, os.WriteFile(filepath.Join(copied, name), text, 0o600))
	}
	// Without a cache, Go links the program again.
	if again := build(t, env.OperatorName, copied, filepath.Join(dir, "again"), ""); again != digest {
		t.Errorf("the digest is %s, and was %s", again, digest)
	}
}

func configuration(t *testing.T, name, root string, built v1.Image) {
	t.Helper()
	config, err := built.ConfigFile()
	env.Must(t, err)
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		t.Errorf("platform is %s", config.Platform())
	}
	version, err := os.ReadFile(filepath.Join(root, release.VersionFile))
	env.Must(t, err)
	// What "go version -m" prints of the program; TestLabelsOfABuildComeFromTheProgram has the details.
	for label, pattern := range map[string]string{image.ToolchainLabel: `^go1\.\d+\.\d+$`, image.ModulesLabel: `^sha256:[0-9a-f]{64}$`} {
		if !regexp.MustCompile(pattern).MatchString(config.Config.Labels[label]) {
			t.Errorf("label %s is %q", label, config.Config.Labels[label])
		}
		delete(config.Config.Labels, label)
	}
	want := v1.Config{
		// A number, and not 0: so a kubelet can hold runAsNonRoot.
		User: "65532:65532", Entrypoint: []string{"/" + program(name)}, Env: []string{"PATH=/usr/bin"}, WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    name,
			"org.opencontainers.image.version":  strings.TrimSpace(string(version)),
			"org.opencontainers.image.source":   "https://github.com/csi-operators/csi-operators",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func files(t *testing.T, name, tree string) {
	t.Helper()
	var total int64
	found := map[string]string{}
	env.Must(t, filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode()&0o022 != 0 {
			t.Errorf("%s: others can write it: %v", path, info.Mode())
		}
		if entry.IsDir() {
			return nil
		}
		total += info.Size()
		name, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		found[name] = info.Mode().String()
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return image.CheckFile(image.File{Path: name, Mode: info.Mode(), Content: content})
	}))
	want := map[string]string{program(name): "-r-xr-xr-x", sbom(name): "-r--r--r--", "licenses/LICENSE": "-r--r--r--"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	most := int64(70)
	if name == nodeHealth {
		// Each node pulls it.
		most = 10
	}
	if total >= most*megabyte {
		t.Errorf("the image has %d MB, want less than %d", total/megabyte, most)
	}
	t.Logf("%.1f MB", float64(total)/megabyte)
}

func static(t *testing.T, name string) {
	file, err := elf.Open(name)
	env.Must(t, err)
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			t.Errorf("%s has %v: it needs a loader and libraries, and the image has none", name, part.Type)
		}
	}
}

func parts(t *testing.T, name, tree string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tree, sbom(name)))
	env.Must(t, err)
	var bom cyclonedx.BOM
	env.Must(t, cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom))
	listed := map[string]string{}
	for _, component := range *bom.Components {
		listed[component.Name] = component.Version
	}
	info, err := buildinfo.ReadFile(filepath.Join(tree, program(name)))
	env.Must(t, err)
	want := map[string]string{"std": strings.TrimPrefix(info.GoVersion, "go")}
	for _, module := range info.Deps {
		want[module.Path] = module.Version
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("modules (-in the program +listed):\n%s", diff)
	}
	// The program on nodes has UID 0 there, and is made of Go's own packages only.
	if onlyGo := len(listed) == 1; onlyGo != (name == nodeHealth) || !onlyGo && listed["sigs.k8s.io/controller-runtime"] == "" {
		t.Errorf("listed are %v", listed)
	}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	// The CSV says that the operator can be run in FIPS mode: it is built with the module of that standard, and uses it.
	if !strings.HasPrefix(settings["GOFIPS140"], "v1.0.0") || settings["DefaultGODEBUG"] != "fips140=on" || settings["CGO_ENABLED"] != "0" {
		t.Errorf("the program is built with %v", settings)
	}
}

func runs(t *testing.T, tree string, built v1.Image, examples map[string]string) {
	t.Helper()
	config, err := built.ConfigFile()
	env.Must(t, err)
	entrypoint := filepath.Join(tree, config.Config.Entrypoint[0])
	for args, want := range examples {
		output, err := exec.CommandContext(t.Context(), entrypoint, strings.Fields(args)...).CombinedOutput()
		if err != nil || !strings.Contains(string(output), want) {
			t.Errorf("%s: %v, and no %s in\n%s", args, err, want, output)
		}
	}
}
