package openshift

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	// stagedDir is the folder with the CRDs that the build copies from Go modules.
	stagedDir = "crds"
	// standInDir is the folder with the CRDs that no Go module contains.
	standInDir = "standins"
)

//go:embed all:crds
//go:embed all:standins
var crdFiles embed.FS

// CheckCRDs validates the CRDs in this binary.
func CheckCRDs() error {
	_, err := crds(crdFiles)
	return err
}

func crds(files fs.FS) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	staged, err := fs.Glob(files, path.Join(stagedDir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list the embedded CRDs: %w", err)
	}
	if len(staged) == 0 {
		return nil, fmt.Errorf("this devcluster binary was built without the CRDs of OpenShift's resources: " +
			"build it with `make bin/devcluster`, which runs hack/stage-devcluster.sh first")
	}
	own, err := fs.Glob(files, path.Join(standInDir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list the embedded CRDs: %w", err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, name := range slices.Concat(staged, own) {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read the embedded file %s: %w", name, err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return nil, fmt.Errorf("decode the embedded file %s: %w", name, err)
		}
		if crd.Kind != "CustomResourceDefinition" {
			return nil, fmt.Errorf("decode the embedded file %s: it holds a %q", name, crd.Kind)
		}
		if crd.Spec.Names.Kind == "Infrastructure" {
			allowAnyPlatform(crd)
		}
		all = append(all, crd)
	}
	return all, nil
}

// allowAnyPlatform changes the CRD of the Infrastructure. The changed CRD accepts every platform, because a later version of OpenShift may have new
// platforms.
func allowAnyPlatform(crd *apiextensionsv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		root := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
		for _, path := range [][]string{
			{"spec", "platformSpec", "type"}, {"status", "platformStatus", "type"}, {"status", "platform"},
		} {
			without(root, path)
		}
	}
}

// without removes the list of allowed values from the schema of a field.
func without(schema *apiextensionsv1.JSONSchemaProps, path []string) {
	field, found := schema.Properties[path[0]]
	if !found {
		return
	}
	if len(path) == 1 {
		field.Enum = nil
	} else {
		without(&field, path[1:])
	}
	schema.Properties[path[0]] = field
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

func names(all []*apiextensionsv1.CustomResourceDefinition) string {
	list := make([]string, 0, len(all))
	for _, crd := range all {
		list = append(list, crd.Name)
	}
	return strings.Join(list, ", ")
}
