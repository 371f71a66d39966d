package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// What `make demo PLATFORM=` shows is the whole chain: an error is one of any of its programs. The platform has two drivers, as has the one of
// TestWhatIsKeptEndsByThePrintedCommands.
func TestTheDemonstrationEndsWithHealthyStorage(t *testing.T) {
	if err := run(t.Context(), options{platform: "Azure", nodes: fewestNodes, real: "0"}); err != nil {
		t.Fatal(err)
	}
}

func TestTooFewNodesAreRefusedAtOnce(t *testing.T) {
	err := run(t.Context(), options{platform: "GCP", nodes: fewestNodes - 1, real: "0"})
	if err == nil || !strings.Contains(err.Error(), "at least 3 nodes") {
		t.Errorf("the error is %v", err)
	}
}

// Real pods can't reach a cloud of this process, and -real 1 doesn't fake them silently.
func TestARealDemonstrationIsRefusedWhereItWouldBeFake(t *testing.T) {
	for _, platform := range []string{"OpenStack", "VSphere", "IBMCloud"} {
		err := run(t.Context(), options{platform: platform, real: "1"})
		if err == nil || !strings.Contains(err.Error(), "which real pods can't reach") {
			t.Errorf("%s: the error is %v", platform, err)
		}
	}
	if err := run(t.Context(), options{real: "yes"}); err == nil || !strings.Contains(err.Error(), "must be 0, 1 or empty") {
		t.Errorf("the error is %v", err)
	}
}

// A reader of README gets a bound PVC with the commands that the demonstration prints.
func TestTheReadmeHasTheCommandsThatTheDemonstrationPrints(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	env.Must(t, err)
	want := "make demo KEEP=1 &&\n" + strings.Join(claim("bin/devcluster kubectl"), " &&\n") + "\n"
	if !strings.Contains(string(text), "```sh\n"+want+"```\n") {
		t.Errorf("README lacks the block\n%s", want)
	}
}
