package rules

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// The room that a newcomer opens first must not grow in silence, nor any other.
const (
	mostLines  = 3000
	mostFields = 14
	mostOfTrip = 20
	theTrip    = "internal/controller/clustercsidriver"
)

func TestPackagesAreSmall(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	most := map[string]int{"test/env": 4000, theTrip: 2700, "internal/plugin/doctor": 3100, "internal/controller/sharedvolume": 3200}
	lines := map[string]int{}
	for _, top := range []string{"api", "bundle", "cmd", "devcluster", "hack", "internal", "pkg", "test"} {
		env.Must(t, filepath.WalkDir(filepath.Join(root, top), func(path string, _ fs.DirEntry, err error) error {
			name := filepath.Base(path)
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") {
				return err
			}
			folder, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			lines[folder] += bytes.Count(text, []byte("\n"))
			return err
		}))
	}
	if len(lines) < 50 {
		t.Fatalf("only %d packages", len(lines))
	}
	for folder, count := range lines {
		if limit := cmp.Or(most[folder], mostLines); count > limit {
			t.Errorf("%s has %d lines, at most %d are wanted: what has a concept of its own moves to a package of its own", folder, count, limit)
		}
	}
}

func TestTheTripFitsOnAScreen(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, filepath.Join(root, theTrip, "reconciler.go"), nil, 0)
	env.Must(t, err)
	fields, lines := 0, 0
	ast.Inspect(file, func(node ast.Node) bool {
		switch found := node.(type) {
		case *ast.TypeSpec:
			if shape, ok := found.Type.(*ast.StructType); ok && found.Name.Name == "Reconciler" {
				for _, field := range shape.Fields.List {
					fields += max(1, len(field.Names))
				}
			}
		case *ast.FuncDecl:
			if found.Name.Name == "apply" {
				lines = files.Position(found.End()).Line - files.Position(found.Pos()).Line + 1
			}
		}
		return true
	})
	if fields == 0 || fields > mostFields {
		t.Errorf("the Reconciler has %d fields, at most %d are wanted", fields, mostFields)
	}
	if lines == 0 || lines > mostOfTrip {
		t.Errorf("the trip has %d lines, at most %d are wanted", lines, mostOfTrip)
	}
}
