package image_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/release/image"
	"github.com/csi-operators/csi-operators/internal/testing/gobuild"
)

// The labels are what "go version -m" prints, so that users can check them without this program.
func TestLabelsOfABuildComeFromTheProgram(t *testing.T) {
	// A test's own program names no modules.
	file := filepath.Join(t.TempDir(), "reference")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-toolexec", gobuild.LinkCache(), "-o", file, "../../../hack/reference").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	labels, err := image.BuildLabels(binary)
	if err != nil {
		t.Fatal(err)
	}
	printed, err := exec.CommandContext(t.Context(), "go", "version", "-m", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for line := range strings.Lines(string(printed)) {
		if words := strings.Fields(line); words[0] == "dep" {
			fmt.Fprintln(&lines, strings.Join(words[1:], " "))
		}
	}
	if lines.Len() == 0 {
		t.Fatalf("no modules in %s", printed)
	}
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(lines.String()))); labels[image.ModulesLabel] != want {
		t.Errorf("modules %s, want %s", labels[image.ModulesLabel], want)
	}
	if got := labels[image.ToolchainLabel]; got != runtime.Version() {
		t.Errorf("toolchain %s", got)
	}
	if _, err := image.BuildLabels([]byte("no program")); err == nil {
		t.Error("any file has a build")
	}
}
