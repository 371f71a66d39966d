package olm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// namespace is the operator's namespace in config/.
const namespace = "openshift-cluster-csi-drivers"

// read replaces the placeholders in a file with one object, and decodes the object strictly.
func (s source) read(name string, into any) error {
	text, err := s.text(name)
	if err != nil {
		return err
	}
	if err := unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// unmarshal decodes YAML as strictly as the API server can: the case of names matters, and unknown or duplicate fields are errors.
func unmarshal(text []byte, into any) error {
	encoded, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		// The library's error has several lines, but an error of this program has only one.
		return errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	strict, err := json.UnmarshalStrict(encoded, into)
	return errors.Join(append(strict, err)...)
}

// text returns the text of a file with its placeholders replaced. It also replaces the operator's namespace with the namespace of the package.
func (s source) text(name string) ([]byte, error) {
	text, err := fs.ReadFile(s.repository, name)
	if err != nil {
		return nil, fmt.Errorf("source of the bundle: %w", err)
	}
	values := s.pkg.values(s.release.Version)
	var problems []error
	expanded := regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllStringFunc(string(text), func(placeholder string) string {
		key := placeholder[2 : len(placeholder)-1]
		if image, ok := strings.CutPrefix(key, "IMAGE:"); ok {
			found, err := s.release.Find(image)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %s: %w", name, placeholder, err))
			}
			return found.PullSpec()
		}
		value, known := values[key]
		if !known {
			problems = append(problems, fmt.Errorf("%s: unknown placeholder %s", name, placeholder))
		}
		return value
	})
	return []byte(strings.ReplaceAll(expanded, namespace, s.pkg.Namespace)), errors.Join(problems...)
}

// objects reads every object in the YAML files of a folder, sorted by the name of the file.
func (s source) objects(folder string) ([]unstructured.Unstructured, error) {
	names, err := fs.Glob(s.repository, path.Join(folder, "*.yaml"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no YAML files in %s (%w)", folder, err)
	}
	var found []unstructured.Unstructured
	for _, name := range names {
		text, err := s.text(name)
		if err != nil {
			return nil, err
		}
		objects, err := decode(name, text)
		if err != nil {
			return nil, err
		}
		found = append(found, objects...)
	}
	return found, nil
}

// decode reads the objects of one YAML file. A duplicate key is an error.
func decode(name string, text []byte) ([]unstructured.Unstructured, error) {
	var found []unstructured.Unstructured
	reader := k8syaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var object unstructured.Unstructured
		if err := unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if object.GetKind() == "" || object.GetAPIVersion() == "" || object.GetName() == "" {
			return nil, fmt.Errorf("%s: an object lacks apiVersion, kind or metadata.name: every object needs all three", name)
		}
		found = append(found, object)
	}
}

// RBAC has the rules of the operator's ServiceAccount.
type RBAC struct {
	Account string
	// Cluster has the rules for all namespaces. Namespaced has the rules for the operator's namespace.
	Cluster, Namespaced []rbacv1.PolicyRule
}

// Roles reads the operator's RBAC from a file. Tests compare this file with the requests that the operator sends to the API server. OLM grants
// rules in all namespaces or in the operator's namespace. So a Role for another namespace is an error.
func Roles(repository fs.FS) (RBAC, error) {
	text, err := fs.ReadFile(repository, roleFile)
	if err != nil {
		return RBAC{}, fmt.Errorf("the operator's RBAC: %w", err)
	}
	found := RBAC{}
	decoder := k8syaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var role rbacv1.Role
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return RBAC{}, fmt.Errorf("%s: %w", roleFile, err)
		}
		switch {
		case role.Kind == "ClusterRole":
			found.Account, found.Cluster = role.Name, role.Rules
		case role.Namespace == namespace:
			found.Namespaced = role.Rules
		default:
			return RBAC{}, fmt.Errorf("%s: %s %s is for namespace %q, but OLM grants permissions only in all namespaces or in the operator's: "+
				"use the ClusterRole, and list the names of the objects in its rule", roleFile, role.Kind, role.Name, role.Namespace)
		}
	}
	if len(found.Cluster) == 0 || len(found.Namespaced) == 0 {
		return RBAC{}, fmt.Errorf("%s: it needs a ClusterRole, and a Role in %s", roleFile, namespace)
	}
	return found, nil
}
