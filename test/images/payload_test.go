package images

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/payload"
	"github.com/csi-operators/csi-operators/test/env"
)

// commands are those by which a release of OpenShift starts our programs.
func commands(t *testing.T, root string) [][]string {
	t.Helper()
	var found [][]string
	add := func(deployment *appsv1.Deployment) {
		found = append(found, deployment.Spec.Template.Spec.Containers[0].Command)
	}
	files, err := filepath.Glob(filepath.Join(root, "manifests", "*_10_deployment*.yaml"))
	env.Must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		env.Must(t, err)
		deployment := &appsv1.Deployment{}
		env.Must(t, yaml.Unmarshal(text, deployment))
		add(deployment)
	}
	scheme, err := kube.Scheme()
	env.Must(t, err)
	for _, entry := range catalogue.All() {
		if !entry.Builtin {
			continue
		}
		objects, err := entry.Everything(scheme)
		env.Must(t, err)
		for _, object := range objects {
			if deployment, ok := object.(*appsv1.Deployment); ok {
				add(deployment)
			}
		}
	}
	if len(found) < 4 {
		t.Fatalf("%d Deployments of our programs", len(found))
	}
	return found
}

// startable looks in an image for the commands of the Deployments that run it, as a container runtime does: in the image's PATH.
func startable(t *testing.T, root, name, tree string, built v1.Image) {
	t.Helper()
	config, err := built.ConfigFile()
	env.Must(t, err)
	folder, _ := strings.CutPrefix(config.Config.Env[0], "PATH=")
	mine := slices.DeleteFunc(commands(t, root), func(command []string) bool { return !slices.Equal(command, []string{name}) })
	if len(mine) < 2 {
		t.Errorf("%d Deployments run %s", len(mine), name)
	}
	if _, err := os.Stat(filepath.Join(tree, path.Join(folder, name))); err != nil {
		t.Error(err)
	}
}

// What make images builds for a release of OpenShift is what that release has.
func TestTheProgramsOfTheReleaseAreBuilt(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	built, err := release.Load(os.DirFS(root))
	env.Must(t, err)
	shipped, err := payload.LoadImages(os.DirFS(root))
	env.Must(t, err)
	if len(built.Payload) != 2 {
		t.Errorf("%d programs", len(built.Payload))
	}
	for _, image := range built.Payload {
		if !slices.ContainsFunc(shipped, func(other payload.Image) bool { return other.Name == image.Name }) {
			t.Errorf("%s has no image %s", payload.ImagesFile, image.Name)
		}
	}
	for _, command := range commands(t, root) {
		if len(command) != 1 || programs()[command[0]] == nil {
			t.Errorf("a Deployment starts %v", command)
		}
	}
}
