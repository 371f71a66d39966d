package rules

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// Whoever waits for the first build sees how many programs are left.
func TestABuildSaysWhichProgramOfHowManyItIs(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	output := filepath.Join(t.TempDir(), "linkcache")
	build := exec.CommandContext(t.Context(), "hack/build.sh", "hack/linkcache", ".", output)
	build.Dir = root
	build.Env = append(build.Environ(), "BUILD_LIST=before linkcache after")
	text, err := build.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(text), "building linkcache (program 2 of 3): ") {
		t.Errorf("%v: %s", err, text)
	}
}
