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
	// stagedDir holds the definitions that the build copies out of Go modules.
	stagedDir = "crds"
	// standInDir holds definitions that no Go module has.
	standInDir = "standins"
)

//go:embed all:crds
//go:embed all:standins
var definitionFiles embed.FS

// CheckDefinitions says what is wrong with the custom resource definitions in this binary.
func CheckDefinitions() error {
	_, err := definitions(definitionFiles)
	return err
}

// definitions decodes the embedded custom resource definitions.
func definitions(files fs.FS) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	staged, err := fs.Glob(files, path.Join(stagedDir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list the embedded custom resource definitions: %w", err)
	}
	if len(staged) == 0 {
		return nil, fmt.Errorf("this devcluster binary was built without the definitions of OpenShift's resources: " +
			"build it with `make bin/devcluster`, which runs hack/stage-devcluster.sh first")
	}
	own, err := fs.Glob(files, path.Join(standInDir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list the embedded custom resource definitions: %w", err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, name := range slices.Concat(staged, own) {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read the embedded file %s: %w", name, err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, definition); err != nil {
			return nil, fmt.Errorf("decode the embedded file %s: %w", name, err)
		}
		if definition.Kind != "CustomResourceDefinition" {
			return nil, fmt.Errorf("decode the embedded file %s: it holds a %q", name, definition.Kind)
		}
		if definition.Spec.Names.Kind == "Infrastructure" {
			allowAnyPlatform(definition)
		}
		all = append(all, definition)
	}
	return all, nil
}

// allowAnyPlatform lets the Infrastructure name a platform that this version does not know, as that of a later version may.
func allowAnyPlatform(definition *apiextensionsv1.CustomResourceDefinition) {
	for i := range definition.Spec.Versions {
		root := definition.Spec.Versions[i].Schema.OpenAPIV3Schema
		for _, path := range [][]string{
			{"spec", "platformSpec", "type"}, {"status", "platformStatus", "type"}, {"status", "platform"},
		} {
			without(root, path)
		}
	}
}

// without drops the list of values that the field at the path can have.
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

func established(definition *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(definition.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

func names(all []*apiextensionsv1.CustomResourceDefinition) string {
	list := make([]string, 0, len(all))
	for _, definition := range all {
		list = append(list, definition.Name)
	}
	return strings.Join(list, ", ")
}
