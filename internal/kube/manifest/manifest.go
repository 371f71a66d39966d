// Package manifest turns embedded YAML into typed Kubernetes objects. An unknown ${PLACEHOLDER}, an unknown field, a duplicate key or an unknown kind
// is an error that names the file and the culprit.
//
// Placeholders stand for scalars only, and don't nest. Only Go code changes the structure of objects.
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
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Values maps the name of a placeholder, without ${}, to its value.
type Values map[string]string

// With returns a copy of the Values that also has the values in argument "more". If a placeholder is in the Values and in "more", the value in "more"
// counts.
func (v Values) With(more Values) Values {
	all := make(Values, len(v)+len(more))
	maps.Copy(all, v)
	maps.Copy(all, more)
	return all
}

// Load reads every *.yaml file of one folder, in the order of the file names. It decodes all objects in each file.
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
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})
	var objects []client.Object
	for _, document := range documents(text) {
		// A strict YAML decoder would parse each document twice.
		content, err := yaml.YAMLToJSONStrict([]byte(document))
		if err != nil {
			return nil, fmt.Errorf("asset %s: %w", name, err)
		}
		decoded, _, err := decoder.Decode(content, nil, nil)
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

// LoadInto decodes a file into out. The file holds one value without kind, for instance a container.
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

// cut splits a text at its first placeholder, for example "${NAME}". Without a placeholder, result "before" is the whole text, and the other two
// results are empty. If the closing brace is missing, the placeholder is the rest of the line.
func cut(text string) (before, placeholder, after string) {
	before, rest, found := strings.Cut(text, "${")
	if !found {
		return text, "", ""
	}
	end := strings.IndexAny(rest, "}\n")
	switch {
	case end < 0:
		end = len(rest)
	case rest[end] == '}':
		end++
	}
	return before, "${" + rest[:end], rest[end:]
}

func nameIn(placeholder string) string {
	return strings.TrimSuffix(strings.TrimPrefix(placeholder, "${"), "}")
}

// Placeholders lists the names of the placeholders in the files that match a pattern of path.Match, each once, in file order. It skips unreadable
// files, because Load reports them.
func Placeholders(folder fs.FS, pattern string) []string {
	var found []string
	files, _ := fs.Glob(folder, pattern)
	sort.Strings(files)
	for _, file := range files {
		text, _ := fs.ReadFile(folder, file)
		for _, placeholder, rest := cut(string(text)); placeholder != ""; _, placeholder, rest = cut(rest) {
			if name := nameIn(placeholder); !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	return found
}

// replace fills the placeholders of text. Its error names every wrong placeholder, not just the first.
func replace(text string, values Values) (string, error) {
	var filled strings.Builder
	var problems []error
	seen := map[string]bool{}
	before, placeholder, rest := cut(text)
	for ; placeholder != ""; before, placeholder, rest = cut(rest) {
		value, known := values[nameIn(placeholder)]
		var problem error
		switch {
		case !strings.HasSuffix(placeholder, "}"):
			problem = fmt.Errorf("placeholder %q is not closed", placeholder)
		case !known:
			problem = fmt.Errorf("unknown placeholder %s", placeholder)
		case strings.ContainsAny(value, "\n\r\"\\") || strings.Contains(value, ": ") || strings.Contains(value, " #"):
			// Such a value would become YAML structure instead of a scalar.
			problem = fmt.Errorf("the value %q of placeholder %s is not a plain scalar", value, placeholder)
		}
		if problem != nil && !seen[placeholder] {
			problems = append(problems, problem)
			seen[placeholder] = true
		}
		filled.WriteString(before + value)
	}
	return filled.String() + before, errors.Join(problems...)
}

// documents splits a YAML stream and drops documents that hold nothing but comments.
func documents(text string) []string {
	// Most files have only one document, which needs no split.
	if !strings.HasPrefix(text, "---") && !strings.Contains(text, "\n---") {
		return withContent(text)
	}
	return withContent(regexp.MustCompile(`(?m)^---[ \t]*$`).Split(text, -1)...)
}

// withContent drops documents that are empty or only comments.
func withContent(documents ...string) []string {
	var found []string
	for _, document := range documents {
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
