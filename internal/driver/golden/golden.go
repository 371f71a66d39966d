// Package golden compares rendered objects with a reviewed file, one file for each variant of the configuration.
package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Compare fails the test if objects differ from testdata/<name>.yaml. With UPDATE=1 in the environment it writes the
// file instead.
func Compare(t *testing.T, name string, objects []client.Object) {
	t.Helper()
	file := filepath.Join("testdata", name+".yaml")
	got := marshal(t, objects)
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatalf("%v: run UPDATE=1 go test on this package and review the new file", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s differs (-want +got); if this is meant, run UPDATE=1 go test on this package and review:\n%s", file, diff)
	}
}

// marshal writes a YAML stream without what an object holds only in memory.
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
