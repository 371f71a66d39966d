package iam

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
)

// STS would reject a token that the trust policy does not match. This shows only on clusters with STS.
func TestThePodOfTheOperatorHasATokenThatTheRoleTrusts(t *testing.T) {
	manifest, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "manager", "manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(manifest, &deployment); err != nil {
		t.Fatal(err)
	}
	found, err := renderAccess(driver.Controller, kube.DefaultNamespace, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := found.audience(driver.Controller)
	if err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	if !slices.Contains(found.request.Spec.ServiceAccountNames, pod.ServiceAccountName) {
		t.Errorf("the role of %v is not for %s", found.request.Spec.ServiceAccountNames, pod.ServiceAccountName)
	}
	got, err := access{objects: []client.Object{&deployment}}.audience(driver.Controller)
	if err != nil || got != want {
		t.Errorf("the operator has a token for %q, want %q: %v", got, want, err)
	}
	files := map[string]string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, volume := range pod.Volumes {
			if volume.Name == mount.Name && volume.Projected != nil {
				files[path.Join(mount.MountPath, volume.Projected.Sources[0].ServiceAccountToken.Path)] = mount.Name
			}
		}
	}
	for _, variable := range pod.Containers[0].Env {
		if variable.Name == "AWS_WEB_IDENTITY_TOKEN_FILE" && files[variable.Value] == "" {
			t.Errorf("%s is %s, and no token is there: %v", variable.Name, variable.Value, files)
		}
	}
	if len(files) != 1 {
		t.Errorf("the tokens are %v, want one", files)
	}
}
