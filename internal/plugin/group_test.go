package plugin

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestWrongArgumentsAreWrongUsage(t *testing.T) {
	for line, want := range map[string]string{
		"share":               "oc storage share needs a command: list, drop; see -h",
		"share lst":           "unknown command \"lst\" for \"oc storage share\": the commands are list, drop; see -h; did you mean \"list\"?",
		"share lst --all=1":   "unknown command \"lst\" for \"oc storage share\": the commands are list, drop; see -h; did you mean \"list\"?",
		"share list now":      `unexpected argument "now"`,
		"share drop":          "oc storage share drop takes one argument, NAME, not 0",
		"share list --force":  "unknown flag: --force",
		"share list -o xml":   `--output "xml": must be table, wide, json or yaml`,
		"nothing":             `unknown command "nothing" for "oc storage": -h lists the commands`,
		"share list -o json":  "",
		"share drop sv1":      "",
		"share --help":        "",
		"":                    "",
		"share drop sv1 more": "oc storage share drop takes one argument, NAME, not 2",
	} {
		var out bytes.Buffer
		p := New(genericiooptions.IOStreams{Out: &out, ErrOut: &out})
		done := func(*cobra.Command, []string) error { return nil }
		root := p.Root("oc storage", "1", Group("share", "Shares", "",
			&cobra.Command{Use: "list", Args: NoArgs, RunE: done}, &cobra.Command{Use: "drop", Args: OneArg("NAME"), RunE: done}))
		root.SetArgs(strings.Fields(line))
		err := root.ExecuteContext(t.Context())
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", line, err)
		case want != "" && (err == nil || err.Error() != want || Code(err) != WrongUsage):
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}
