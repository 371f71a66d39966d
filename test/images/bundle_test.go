package images

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/image"
	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/test/env"
)

// packaging is how an image is made of what "make bundle" has written, and where in the image each part of it must be.
type packaging struct {
	folder string
	build  func(image.About, fs.FS) (v1.Image, error)
	inside map[string]string
}

func packaged() map[string]packaging {
	bundle := map[string]string{"manifests": "manifests", "metadata": "metadata"}
	return map[string]packaging{
		"aws-efs-csi-driver-operator-bundle": {"bundle/aws-efs-csi-driver-operator", image.Bundle, bundle},
		"aws-efs-operator-bundle":            {"bundle/aws-efs-operator", image.Bundle, bundle},
		"csi-operators-catalog":              {"bundle/catalog", image.Catalog, map[string]string{".": "configs"}},
	}
}

func TestTheImagesForOLMHaveWhatMakeBundleWrites(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	found, err := release.Load(os.DirFS(root))
	env.Must(t, err)
	for name, example := range packaged() {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(root, example.folder)
			described, err := found.Find(name)
			env.Must(t, err)
			about := image.About{Title: name, Version: found.Version.String(), License: []byte("free"), Architecture: "amd64"}
			written, err := example.build(about, os.DirFS(folder))
			env.Must(t, err)
			dir := t.TempDir()
			_, err = image.WriteLayout(filepath.Join(dir, "layout"), described.Image, []v1.Image{written})
			env.Must(t, err)
			built := readBack(t, filepath.Join(dir, "layout"))
			env.Must(t, image.Unpack(built, filepath.Join(dir, "tree")))

			want := map[string]string{"licenses/LICENSE": "free"}
			for from, to := range example.inside {
				for path, content := range contents(t, filepath.Join(folder, from)) {
					want[filepath.Join(to, path)] = content
				}
			}
			if diff := cmp.Diff(want, contents(t, filepath.Join(dir, "tree"))); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			config, err := built.ConfigFile()
			env.Must(t, err)
			if config.Config.User != image.User || len(config.Config.Entrypoint) > 0 {
				t.Errorf("user %q, entry point %v", config.Config.User, config.Config.Entrypoint)
			}
			labels(t, folder, config.Config.Labels)
		})
	}
}

// contents are the files of a folder, by their paths in it.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	env.Must(t, fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(os.DirFS(folder), name)
		found[name] = string(content)
		return err
	}))
	return found
}

// labels are what OLM reads before it unpacks an image.
func labels(t *testing.T, folder string, got map[string]string) {
	t.Helper()
	// The CatalogSource says so, too.
	want := map[string]string{"operators.operatorframework.io.index.configs.v1": olm.CatalogDir}
	if text, err := os.ReadFile(filepath.Join(folder, "metadata/annotations.yaml")); err == nil {
		var metadata struct {
			Annotations map[string]string `json:"annotations"`
		}
		env.Must(t, yaml.Unmarshal(text, &metadata))
		want = metadata.Annotations
	}
	ours := map[string]string{}
	for key, value := range got {
		if strings.HasPrefix(key, "operators.") || want[key] != "" {
			ours[key] = value
		}
	}
	if diff := cmp.Diff(want, ours); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// deployed looks for what the Deployment of each bundle names as its command, as a container runtime does: in the image's PATH.
func deployed(t *testing.T, root, tree string, built v1.Image) {
	config, err := built.ConfigFile()
	env.Must(t, err)
	files, err := filepath.Glob(filepath.Join(root, "bundle/*/manifests/*.clusterserviceversion.yaml"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%d bundles, want 2: run 'make bundle' (%v)", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		env.Must(t, err)
		var version struct {
			Spec struct {
				Install struct {
					Spec struct {
						Deployments []struct {
							Spec appsv1.DeploymentSpec `json:"spec"`
						} `json:"deployments"`
					} `json:"spec"`
				} `json:"install"`
			} `json:"spec"`
		}
		env.Must(t, yaml.Unmarshal(text, &version))
		if len(version.Spec.Install.Spec.Deployments) != 1 {
			t.Fatalf("%s: %d Deployments", file, len(version.Spec.Install.Spec.Deployments))
		}
		container := version.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.Containers[0]
		command := config.Config.Entrypoint
		if len(container.Command) > 0 {
			command = container.Command
		}
		folder, _ := strings.CutPrefix(config.Config.Env[0], "PATH=")
		if !path.IsAbs(command[0]) {
			command[0] = path.Join(folder, command[0])
		}
		if _, err := os.Stat(filepath.Join(tree, command[0])); err != nil {
			t.Errorf("%s: command %v: %v", file, container.Command, err)
		}
	}
}
