// Package golden compares rendered objects with golden files, one for each variant of the configuration.
//
// The file of the base has all objects. The file of a variant is its diff from the base. So a reviewer sees the effect of a configuration, and a
// change of the base does not change every file.
//
// With RENDERED=folder in the environment, it also writes all objects of the base and of each variant into folder/<package>/<name>.yaml, for tests
// that pass them to real programs.
package golden

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Compare fails the test if objects differ from testdata/<name>.yaml. With UPDATE=1 in the environment it writes the
// file instead.
func Compare(t *testing.T, name string, objects []client.Object) {
	t.Helper()
	text := marshal(t, objects)
	export(t, name, text)
	CompareText(t, name+".yaml", text)
}

// CompareVariant fails the test if the diff of objects from base differs from testdata/<name>.diff. A variant that changes nothing has no file.
func CompareVariant(t *testing.T, name string, base, objects []client.Object) {
	t.Helper()
	whole := marshal(t, objects)
	export(t, name, whole)
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(marshal(t, base)), B: difflib.SplitLines(whole), Context: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	// Remove the line numbers, which change with the base.
	CompareText(t, name+".diff", regexp.MustCompile(`(?m)^@@ .* @@$`).ReplaceAllString(text, "@@"))
}

// NoOthers fails the test if a folder of testdata has a golden file whose variant was removed or renamed. names has the names that the test passed to
// Compare and CompareVariant for that folder.
func NoOthers(t *testing.T, folder string, names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("testdata", folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name, extension := entry.Name(), filepath.Ext(entry.Name())
		isReviewed := extension == ".yaml" || extension == ".diff"
		if isReviewed && !slices.Contains(names, strings.TrimSuffix(name, extension)) {
			t.Errorf("testdata/%s: no test reads it: delete it", filepath.Join(folder, name))
		}
	}
}

// export writes the objects of a variant into the folder RENDERED.
func export(t *testing.T, name, text string) {
	t.Helper()
	folder := os.Getenv("RENDERED")
	if folder == "" {
		return
	}
	// The working directory of a test is the folder of its package.
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, filepath.Base(here), name+".yaml")
	//nolint:gosec // The developer who runs the tests chooses the folder.
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	//nolint:gosec // As above.
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// CompareText fails the test if a text differs from a file in testdata. An empty text has no file.
func CompareText(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") == "1" {
		if err := update(file, got); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(filepath.Clean(file))
	switch {
	case errors.Is(err, fs.ErrNotExist) && got == "":
		return
	case err != nil:
		t.Fatalf("%v: run UPDATE=1 go test on this package and review the new file", err)
	case len(want) == 0:
		t.Fatalf("%s is empty: remove it, or run UPDATE=1 go test on this package", file)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s differs (-want +got); if this is meant, run UPDATE=1 go test on this package and review:\n%s", file, diff)
	}
}

// update writes a file, or removes it if the text is empty.
func update(file, text string) error {
	if text == "" {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("golden file: %w", err)
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return fmt.Errorf("folder of a golden file: %w", err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("golden file: %w", err)
	}
	return nil
}

// marshal returns objects as a YAML stream, without status.
func marshal(t *testing.T, objects []client.Object) string {
	t.Helper()
	var stream strings.Builder
	for _, object := range objects {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		delete(fields, "status")
		text, err := yaml.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		stream.WriteString("---\n")
		stream.Write(text)
	}
	return stream.String()
}
