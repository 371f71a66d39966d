package rules

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// A CI may have variables with such names for other work. With CLEAN, "make prove" would only delete; with SKIP, "make certify" would leave tests out.
func TestWhatMakeTakesFromItsCommandLineOnly(t *testing.T) {
	const value = `a "$b" c$`
	names := []string{
		"ACCOUNT", "CLEAN", "DRIVER", "FOCUS", "IMAGE", "KUBECONFIG", "LIST", "MANIFEST", "NODE_ROLEARN", "OLDER", "OUTPUT", "ROLEARN", "SKIP", "STEPS",
		"TESTS", "ZONE",
	}
	var assigned []string
	for _, name := range names {
		assigned = append(assigned, name+"="+value)
	}
	// What is printed without -n is the variable that has TESTS.
	dry := func(variables, arguments []string) string {
		arguments = append([]string{
			"--no-print-directory", "-n", "--eval=prove: show", `--eval=show: ; +@printf "TESTS is %s.\n" "$$PROVE_TESTS"`, "certify", "prove",
		}, arguments...)
		command := exec.CommandContext(t.Context(), "make", arguments...)
		root, err := env.Root()
		env.Must(t, err)
		command.Dir = root
		command.Env = append(append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL="), variables...)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return string(output)
	}
	plain := dry(nil, nil)
	if got := dry(assigned, nil); got != plain || !strings.Contains(got, "TESTS is .\n") {
		t.Errorf("make takes variables from the environment:\n%s\nwithout them:\n%s", got, plain)
	}
	got := dry(nil, assigned)
	for _, want := range []string{
		"-driver '%'", "-kubeconfig '%'", "-manifest '%'", "-zone '%'", "-focus '%'", "-skip '%'", "-tests '%'", "-account '%'", "-steps '%'", " -clean ",
		"-older '%'", "-role-arn '%'", "-node-role-arn '%'", "-image '%'", "-output '%'", "TESTS is %.\n",
	} {
		if want = strings.ReplaceAll(want, "%", value); !strings.Contains(got, want) {
			t.Errorf("make does not pass %q on:\n%s", want, got)
		}
	}
}
