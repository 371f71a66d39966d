package images

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/release/image"
	"github.com/csi-operators/csi-operators/test/env"
)

// A program that can load plugins has twice the size, because the linker keeps every method of every type.
func TestNoProgramCanLoadPlugins(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	for module, packages := range map[string]string{".": "./cmd/...", "devcluster": "."} {
		command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", image.Tags, packages)
		command.Dir = filepath.Join(root, module)
		output, err := command.Output()
		env.Must(t, err)
		imports := strings.Fields(string(output))
		if len(imports) < 100 || slices.Contains(imports, "plugin") {
			t.Errorf("%s %s: package plugin is among %d imports", module, packages, len(imports))
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	env.Must(t, err)
	if !strings.Contains(string(makefile), "-tags "+image.Tags+"\n") {
		t.Errorf("the Makefile lacks -tags %s", image.Tags)
	}
}
