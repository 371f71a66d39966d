package olm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// checkOwned compares the kinds in the ClusterServiceVersion with the CRDs of the bundle. It also compares these CRDs with the stored CRD.
func checkOwned(b bundle, e Expected) []error {
	var problems []error
	say := b.into(&problems)
	listed := map[string]bool{}
	for i, owned := range b.csv.Spec.CRDs.Owned {
		where := fmt.Sprintf("spec.customresourcedefinitions.owned[%d]", i)
		listed[owned.Name] = true
		crd := b.crds[owned.Name]
		if crd == nil {
			say(where+".name", "manifests/ has no CRD of %s", owned.Name)
			continue
		}
		root := schemaOf(crd, owned.Version)
		if root == nil || crd.Spec.Names.Kind != owned.Kind {
			say(where, "%s does not define version %s of kind %s", b.crdFile[owned.Name], owned.Version, owned.Kind)
			continue
		}
		for part, descriptors := range map[string][]Descriptor{"spec": owned.SpecDescriptors, "status": owned.StatusDescriptors} {
			for j, descriptor := range descriptors {
				if !hasPath(root.Properties[part], strings.Split(descriptor.Path, ".")) {
					say(fmt.Sprintf("%s.%sDescriptors[%d].path", where, part, j), "%s has no field %s.%s", owned.Kind, part, descriptor.Path)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.crds)) {
		if !listed[name] {
			say("spec.customresourcedefinitions.owned", "%s of %s is missing", name, b.crdFile[name])
		}
		if name == e.Stored.Name {
			for _, narrowed := range Narrowed(e.Stored, b.crds[name]) {
				problems = append(problems, fmt.Errorf("%s: %s; OLM refuses a CRD that stored objects do not fit: see %s",
					b.crdFile[name], narrowed, StoredFile))
			}
		}
	}
	return problems
}

func schemaOf(crd *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.JSONSchemaProps {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Name == version && crd.Spec.Versions[i].Served && crd.Spec.Versions[i].Schema != nil {
			return crd.Spec.Versions[i].Schema.OpenAPIV3Schema
		}
	}
	return nil
}

func hasPath(schema apiextensionsv1.JSONSchemaProps, path []string) bool {
	for _, field := range path {
		next, found := schema.Properties[field]
		if !found {
			return false
		}
		schema = next
	}
	return true
}

// Narrowed lists the differences between two CRDs that break existing objects. The older CRD allows such an object, but the newer CRD refuses it,
// does not serve it, or drops a field of it. Each entry is a sentence.
func Narrowed(before, after *apiextensionsv1.CustomResourceDefinition) []string {
	var found []string
	for _, version := range before.Spec.Versions {
		old, now := schemaOf(before, version.Name), schemaOf(after, version.Name)
		if old == nil {
			continue
		}
		if now == nil {
			found = append(found, fmt.Sprintf("version %s is not served any more", version.Name))
			continue
		}
		found = append(found, narrowed("", old, now)...)
	}
	return found
}

// narrowed compares the older and the newer schema of a field, and of all fields inside it. It skips new fields, because a stored object can't
// have them.
func narrowed(field string, old, now *apiextensionsv1.JSONSchemaProps) []string {
	name := strings.TrimPrefix(field, ".")
	if name == "" {
		name = "the object"
	}
	var found []string
	for _, constraint := range constraints(old, now) {
		found = append(found, name+" "+constraint)
	}
	for _, property := range slices.Sorted(maps.Keys(old.Properties)) {
		before := old.Properties[property]
		if after, kept := now.Properties[property]; kept {
			found = append(found, narrowed(field+"."+property, &before, &after)...)
		} else {
			found = append(found, fmt.Sprintf("%s lost the field %s, which would be dropped from stored objects", name, property))
		}
	}
	if old.Items != nil && old.Items.Schema != nil && now.Items != nil && now.Items.Schema != nil {
		found = append(found, narrowed(field+"[]", old.Items.Schema, now.Items.Schema)...)
	}
	return found
}

// constraints returns the constraints of a field that the field's older schema did not have.
func constraints(old, now *apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if now.Pattern != "" && old.Pattern != now.Pattern {
		say("has the pattern %s instead of %q", now.Pattern, old.Pattern)
	}
	for _, needed := range now.Required {
		if !slices.Contains(old.Required, needed) {
			say("requires %s, which existing objects may lack", needed)
		}
	}
	if len(now.Enum) > 0 && !containsAll(now.Enum, old.Enum) {
		say("takes fewer values than before")
	}
	for _, rule := range now.XValidations {
		if !slices.ContainsFunc(old.XValidations, func(other apiextensionsv1.ValidationRule) bool { return other.Rule == rule.Rule }) {
			say("has a new rule: %s", rule.Rule)
		}
	}
	if now.MaxLength != nil && (old.MaxLength == nil || *now.MaxLength < *old.MaxLength) {
		say("has a lower maxLength, %d", *now.MaxLength)
	}
	if difference := cmp.Diff(rest(old), rest(now)); difference != "" {
		say("has other constraints than before, and this check can't tell whether they are wider:\n%s", difference)
	}
	return found
}

// rest returns a schema without the parts that functions constraints and narrowed compare. It also drops the parts that do not limit values, such as
// descriptions.
func rest(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	other := schema.DeepCopy()
	other.Pattern, other.Required, other.Enum, other.XValidations, other.MaxLength = "", nil, nil, nil, nil
	other.Properties, other.Title, other.Description, other.Default, other.Example = nil, "", "", nil, nil
	if other.Items != nil && other.Items.Schema != nil {
		other.Items.Schema = nil
	}
	return other
}

// containsAll reports whether list has every value of part. An empty part stands for all possible values, so the result is then false.
func containsAll(list, part []apiextensionsv1.JSON) bool {
	return len(part) > 0 && !slices.ContainsFunc(part, func(value apiextensionsv1.JSON) bool {
		return !slices.ContainsFunc(list, func(other apiextensionsv1.JSON) bool { return string(other.Raw) == string(value.Raw) })
	})
}

// checkExamples compares the examples with the CRDs of their kinds. Examples of kinds that the bundle does not own are checked in tests, with an API
// server.
func checkExamples(b bundle, _ Expected) []error {
	var problems []error
	annotations := b.csv.Metadata.Annotations
	var examples []json.RawMessage
	if err := decodeJSON(annotations[examplesAnnotation], &examples); err != nil {
		return append(problems, problem(b.csvFile, "metadata.annotations."+examplesAnnotation, "%v", err))
	}
	shown := map[schema.GroupVersionKind]bool{}
	try := func(field string, text []byte) {
		var example unstructured.Unstructured
		if err := json.Unmarshal(text, &example.Object); err != nil {
			problems = append(problems, problem(b.csvFile, field, "%v", err))
			return
		}
		kind := example.GroupVersionKind()
		shown[kind] = true
		for _, failure := range b.validate(&example) {
			problems = append(problems, problem(b.csvFile, field, "%s %s: %s", kind.Kind, example.GetName(), failure))
		}
	}
	for i, example := range examples {
		try(fmt.Sprintf("metadata.annotations.%s[%d]", examplesAnnotation, i), example)
	}
	for _, owned := range b.csv.Spec.CRDs.Owned {
		if crd := b.crds[owned.Name]; crd != nil && !shown[schema.GroupVersionKind{Group: crd.Spec.Group, Version: owned.Version, Kind: owned.Kind}] {
			problems = append(problems, problem(b.csvFile, "metadata.annotations."+examplesAnnotation, "it has no example of %s", owned.Kind))
		}
	}
	if text := annotations[initAnnotation]; text != "" {
		try("metadata.annotations."+initAnnotation, []byte(text))
	}
	return problems
}

// validate checks an object against the CRD of its kind. It refuses a kind that the bundle neither defines nor names in spec.nativeAPIs.
func (b bundle) validate(object *unstructured.Unstructured) []string {
	kind := object.GroupVersionKind()
	for _, crd := range b.crds {
		if crd.Spec.Group != kind.Group || crd.Spec.Names.Kind != kind.Kind {
			continue
		}
		root := schemaOf(crd, kind.Version)
		if root == nil {
			return []string{"its version is not served"}
		}
		openAPI := &spec.Schema{}
		text, err := json.Marshal(root)
		if err == nil {
			err = json.Unmarshal(text, openAPI)
		}
		if err != nil {
			return []string{err.Error()}
		}
		var failures []string
		for _, failure := range validate.NewSchemaValidator(openAPI, nil, "", strfmt.Default).Validate(object.Object).Errors {
			failures = append(failures, failure.Error())
		}
		return append(failures, unknownFields("", object.Object, root)...)
	}
	if slices.Contains(b.csv.Spec.NativeAPIs, metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}) {
		return nil
	}
	return []string{"the bundle neither defines this kind nor names it in spec.nativeAPIs"}
}

// unknownFields returns the fields that the API server would prune from an object.
func unknownFields(where string, value map[string]any, schema *apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	for _, field := range slices.Sorted(maps.Keys(value)) {
		if where == "" && (field == "metadata" || field == "apiVersion" || field == "kind") {
			continue
		}
		known, ok := schema.Properties[field]
		if !ok {
			found = append(found, fmt.Sprintf("unknown field %s", strings.TrimPrefix(where+"."+field, ".")))
			continue
		}
		if part, isObject := value[field].(map[string]any); isObject {
			found = append(found, unknownFields(where+"."+field, part, &known)...)
		}
	}
	return found
}
