package plugin

import (
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestACommandToCopyKeepsFrom(t *testing.T) {
	for name, tc := range map[string]struct{ from, command, want string }{
		"a command of folders":    {"case.tar.gz", "oc storage doctor pvc data -n a", "oc storage doctor pvc data -n a --from case.tar.gz"},
		"without arguments":       {"case.tar.gz", "oc storage doctor", "oc storage doctor --from case.tar.gz"},
		"without --from":          {"", "oc storage doctor", "oc storage doctor"},
		"a command of clusters":   {"case.tar.gz", "oc storage install efs", "oc storage install efs"},
		"a similar command":       {"case.tar.gz", "oc storage doctors", "oc storage doctors"},
		"another program":         {"case.tar.gz", "oc get pv", "oc get pv"},
		"a wait":                  {"case.tar.gz", "oc storage doctor --wait", "oc storage doctor --wait"},
		"no command":              {"case.tar.gz", "", ""},
		"a folder with a space":   {"my case", "oc storage doctor", "oc storage doctor --from 'my case'"},
		"a folder with a quote":   {"it's", "oc storage doctor", `oc storage doctor --from 'it'\''s'`},
		"a folder like a command": {"$(id)", "oc storage doctor", "oc storage doctor --from '$(id)'"},
	} {
		p := New(genericiooptions.IOStreams{})
		asks := ReadsFolders(&cobra.Command{Use: "doctor", RunE: func(*cobra.Command, []string) error { return nil }})
		root := p.Root("oc storage", "", asks, &cobra.Command{Use: "install"})
		root.SetArgs([]string{"doctor", "--from", tc.from})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if got := p.WithFrom(tc.command); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
