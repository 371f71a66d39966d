package image_test

import (
	"encoding/json"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

// required are the fields that the schema of SPDX 2.3 requires (spdx/spdx-spec, schemas/spdx-schema.json), by the path of their object.
func required() map[string][]string {
	return map[string][]string{
		"":                       {"SPDXID", "creationInfo", "dataLicense", "name", "spdxVersion", "documentNamespace"},
		".creationInfo":          {"created", "creators"},
		".packages":              {"SPDXID", "downloadLocation", "name"},
		".packages.checksums":    {"algorithm", "checksumValue"},
		".packages.externalRefs": {"referenceCategory", "referenceLocator", "referenceType"},
		".relationships":         {"spdxElementId", "relatedSpdxElement", "relationshipType"},
	}
}

// lacking are the required fields that an object, or one below it, has not.
func lacking(path string, value any) []string {
	var found []string
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			found = append(found, lacking(path, one)...)
		}
	case map[string]any:
		for _, field := range required()[path] {
			if text, is := value[field].(string); value[field] == nil || is && text == "" {
				found = append(found, path+"."+field)
			}
		}
		for field, one := range value {
			found = append(found, lacking(path+"."+field, one)...)
		}
	}
	return found
}

// A test is a Go program, too.
func TestTheSPDXListIsWhatTheProgramSaysOfItself(t *testing.T) {
	binary := must[[]byte](t)(os.ReadFile(must[string](t)(os.Executable())))
	const location = "https://example.com/thing.tar.gz"
	text := must[[]byte](t)(image.SPDX(binary, "thing", "1.2.3", location))
	if again := must[[]byte](t)(image.SPDX(binary, "thing", "1.2.3", location)); string(again) != string(text) {
		t.Error("two lists of a program differ")
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	if missing := lacking("", document); len(missing) > 0 {
		t.Errorf("the schema requires %v", missing)
	}
	packages, _ := document["packages"].([]any)
	relationships, _ := document["relationships"].([]any)
	info, _ := debug.ReadBuildInfo()
	if want := len(info.Deps) + 2; len(packages) != want || len(relationships) != want {
		t.Errorf("%d packages and %d relationships, want %d: the program, its modules and the standard library", len(packages), len(relationships), want)
	}
	var names []string
	for _, one := range packages {
		name, _ := one.(map[string]any)["SPDXID"].(string)
		if !regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(name) || slices.Contains(names, name) {
			t.Errorf("%q is no identifier of SPDX, or is there twice", name)
		}
		names = append(names, name)
	}
	for _, one := range relationships {
		relationship, _ := one.(map[string]any)
		if from, to := relationship["spdxElementId"], relationship["relatedSpdxElement"]; from != "SPDXRef-DOCUMENT" && from != names[0] ||
			!slices.Contains(names, to.(string)) {
			t.Errorf("a relationship of %v to %v", from, to)
		}
	}
	if _, err := image.SPDX([]byte("#!/bin/sh"), "script", "1", location); err == nil || !strings.Contains(err.Error(), "SBOM of script") {
		t.Errorf("list of a script: %v", err)
	}
}
