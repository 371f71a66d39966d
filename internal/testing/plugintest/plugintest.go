// Package plugintest runs commands of the plugin against a list of objects, for tests.
package plugintest

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// Cluster returns a cluster with objects, with our programs' scheme.
func Cluster(t *testing.T, objects ...client.Object) *canned.Cluster {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return canned.New(scheme, objects...)
}

// Result is the result of a command.
type Result struct {
	// Out and Problems are standard output and standard error.
	Out, Problems string
	Code          int
	Err           error
}

// Text returns the result as a text, for a golden file.
func (r Result) Text() string {
	text := r.Out
	if r.Problems != "" {
		text += "-- standard error\n" + r.Problems
		if !strings.HasSuffix(r.Problems, "\n") {
			text += "\n"
		}
	}
	if r.Err != nil && r.Err.Error() != "" {
		text += "-- error: " + r.Err.Error() + "\n"
	}
	return text + "-- exit code " + strconv.Itoa(r.Code) + "\n"
}

// Now is the clock of all commands.
func Now() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// Plugin returns a plugin in namespace "my-project", with an answer to its prompt.
func Plugin(t *testing.T, cluster client.Client, answer string) *plugin.Plugin {
	t.Helper()
	p := plugin.New(genericiooptions.IOStreams{In: strings.NewReader(answer), Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}})
	p.Now, p.Poll, p.Cluster = Now, time.Millisecond, plugin.NewCluster(cluster, nil, "my-project")
	return p
}

// Run runs a command line of "oc storage" in namespace "my-project", with an answer to its prompt. JSON must follow the command's schema.
func Run(t *testing.T, cluster client.Client, answer string, make func(*plugin.Plugin) *cobra.Command, line ...string) Result {
	t.Helper()
	var out, problems bytes.Buffer
	p := Plugin(t, cluster, answer)
	p.Streams.Out, p.Streams.ErrOut = &out, &problems
	root := p.Root("oc storage", "test", make(p))
	root.SetArgs(line)
	command, err := root.ExecuteContextC(t.Context())
	if p.Output == plugin.JSON && line[0] != cobra.ShellCompRequestCmd && out.Len() > 0 {
		FollowsSchema(t, strings.TrimPrefix(command.CommandPath(), root.CommandPath()+" "), out.String())
	}
	return Result{Out: out.String(), Problems: problems.String(), Code: plugin.Code(err), Err: err}
}
