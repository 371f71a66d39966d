package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// The Makefile tests some packages without the race detector. None of them may start a goroutine, nor share memory with one. Their tests may only
// guard what their own servers count.
func TestWhatIsTestedWithoutTheRaceDetectorStartsNoGoroutine(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	command := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-n", "test/pure")
	command.Dir = root
	// Without these, it would be part of the make that runs this test.
	command.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	output, err := command.Output()
	env.Must(t, err)
	packages := regexp.MustCompile(` \./([\w/.-]+)`).FindAllStringSubmatch(string(output), -1)
	if len(packages) < 15 || strings.Contains(string(output), " -race") {
		t.Fatalf("make test/pure does not test the packages without goroutines: %s", output)
	}
	concurrent := regexp.MustCompile(`(?m)^\s*go func|^\s*go \w+[\w.]*\(|\.Go\(func|\bchan |t\.Parallel\(`)
	guarded := regexp.MustCompile(`(?m)^\s*"sync(/atomic)?"`)
	// With the race detector, this one takes seven times as long: make soak does that. In make test, cmd/csi-driver-operator runs its poller so.
	soaked := []string{"internal/cloud/vsphere"}
	for _, one := range packages {
		if slices.Contains(soaked, one[1]) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, one[1], "*.go"))
		env.Must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			env.Must(t, err)
			found := concurrent.Find(text)
			if found == nil && !strings.HasSuffix(file, "_test.go") {
				found = guarded.Find(text)
			}
			if found != nil && filepath.Base(file) != "races_test.go" {
				t.Errorf("%s has %q: take its package off PURE_TESTS in the Makefile", strings.TrimPrefix(file, root+"/"), found)
			}
		}
	}
}
