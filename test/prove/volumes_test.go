package main

import (
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// Make hands its own flags and the variables of its command line on to all makes below it.
func TestTheMakeOfTESTSKnowsNothingOfMakeProve(t *testing.T) {
	t.Setenv("MAKEFLAGS", " -- FOCUS=foreign")
	t.Setenv("MFLAGS", "-n")
	t.Setenv("MAKELEVEL", "1")
	p := &proof{tests: `echo "$MAKEFLAGS$MFLAGS$MAKELEVEL."`, share: share{class: "efs"}}
	p.command = p.execute
	seen, err := p.runTests(t.Context())
	env.Must(t, err)
	if !strings.HasSuffix(seen, ": .") {
		t.Errorf("it has seen %q", seen)
	}
}
