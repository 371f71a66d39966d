// Package manifest turns embedded YAML into typed Kubernetes objects, strictly: an unknown ${PLACEHOLDER}, an unknown
// field, a duplicate key or an unknown kind is an error that names the file and the culprit.
//
// There is one layer of placeholders and they stand for scalars only. Structure is changed by Go code on typed objects.
package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Values maps the name of a placeholder, without ${}, to what it stands for.
type Values map[string]string

// With returns a copy of v with more values; those of more win.
func (v Values) With(more Values) Values {
	all := make(Values, len(v)+len(more))
	maps.Copy(all, v)
	maps.Copy(all, more)
	return all
}

// Load reads every *.yaml file of one folder, in the order of the file names, and decodes all objects in it.
func Load(folder fs.FS, values Values, scheme *runtime.Scheme) ([]client.Object, error) {
	names, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list assets: %w", err)
	}
	sort.Strings(names)
	var objects []client.Object
	for _, name := range names {
		loaded, err := LoadFile(folder, name, values, scheme)
		if err != nil {
			return nil, err
		}
		objects = append(objects, loaded...)
	}
	return objects, nil
}

// LoadFile decodes all objects of one file.
func LoadFile(folder fs.FS, name string, values Values, scheme *runtime.Scheme) ([]client.Object, error) {
	text, err := read(folder, name, values)
	if err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []client.Object
	for _, document := range documents(text) {
		decoded, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("asset %s: %w", name, err)
		}
		object, ok := decoded.(client.Object)
		if !ok {
			return nil, fmt.Errorf("asset %s: %T is not an object with metadata", name, decoded)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// LoadInto decodes a file that holds one value without kind, for instance a container, into out.
func LoadInto(folder fs.FS, name string, values Values, out any) error {
	text, err := read(folder, name, values)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		return fmt.Errorf("asset %s: %w", name, err)
	}
	return nil
}

// Label puts a label on objects.
func Label(objects []client.Object, key, value string) {
	for _, object := range objects {
		labels := maps.Clone(object.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		object.SetLabels(labels)
	}
}

func read(folder fs.FS, name string, values Values) (string, error) {
	data, err := fs.ReadFile(folder, name)
	if err != nil {
		return "", fmt.Errorf("read asset %s: %w", path.Base(name), err)
	}
	text, err := replace(string(data), values)
	if err != nil {
		return "", fmt.Errorf("asset %s: %w", name, err)
	}
	return text, nil
}

// placeholder finds "${NAME}" in a text, and one that is not closed.
func placeholder() *regexp.Regexp { return regexp.MustCompile(`\$\{([^}\n]*)\}?`) }

// Placeholders are the names of the placeholders in those files of a folder that match a pattern of path.Match, in the order of the files,
// each once. A file that can't be read has none: Load says why.
func Placeholders(folder fs.FS, pattern string) []string {
	var found []string
	files, _ := fs.Glob(folder, pattern)
	sort.Strings(files)
	for _, file := range files {
		text, _ := fs.ReadFile(folder, file)
		for _, match := range placeholder().FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(found, match[1]) {
				found = append(found, match[1])
			}
		}
	}
	return found
}

// replace fills the placeholders of text. Every wrong one is reported, not just the first.
func replace(text string, values Values) (string, error) {
	placeholder := placeholder()
	var problems []error
	seen := map[string]bool{}
	filled := placeholder.ReplaceAllStringFunc(text, func(match string) string {
		name := placeholder.FindStringSubmatch(match)[1]
		value, known := values[name]
		var problem error
		switch {
		case !strings.HasSuffix(match, "}"):
			problem = fmt.Errorf("placeholder %q is not closed", match)
		case !known:
			problem = fmt.Errorf("unknown placeholder %s", match)
		case strings.ContainsAny(value, "\n\r\"\\") || strings.Contains(value, ": ") || strings.Contains(value, " #"):
			// Such a value would become YAML structure instead of a scalar.
			problem = fmt.Errorf("the value %q of placeholder %s is not a plain scalar", value, match)
		default:
			return value
		}
		if !seen[match] {
			problems = append(problems, problem)
			seen[match] = true
		}
		return match
	})
	return filled, errors.Join(problems...)
}

// documents splits a YAML stream and drops documents that hold nothing but comments.
func documents(text string) []string {
	var found []string
	for _, document := range regexp.MustCompile(`(?m)^---[ \t]*$`).Split(text, -1) {
		for _, line := range strings.Split(document, "\n") {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") {
				found = append(found, document)
				break
			}
		}
	}
	return found
}
